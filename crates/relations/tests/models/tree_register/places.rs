//! The directories of a model, and what the product's tree says of a move. The tree is built anew from the places each time.

use mapping::tree::{DirId, Operation, PathSyntax, Tree};
use model::ErrorKind;
use std::sync::Arc;

pub(super) const DIRS: usize = 3;
const FIELD: &str = "path";

/// Where a directory is: the number of the one that it is in, 0 for the root, and its name there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Place {
    pub(super) parent: u8,
    pub(super) name: char,
}

/// Of the directories 1, 2, 3.
pub(super) type Places = [Place; DIRS];

/// What a mover wants.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Wish {
    pub(super) dir: u8,
    pub(super) to: Place,
}

/// The product's tree of these places, and its number of each directory; `None`: it takes no such tree.
fn tree(places: &Places) -> Option<(Tree, [DirId; DIRS + 1])> {
    let mut tree = Tree::default();
    let root = Operation::MakeRoot {
        field: Arc::from(FIELD),
        folds: false,
    };
    tree.apply(&root).ok()?;
    let mut ids = [None; DIRS + 1];
    ids[0] = tree.root(FIELD);
    // Each round makes what lies in a directory that is made; places in a circle are never made.
    for _ in places {
        for (n, place) in places.iter().enumerate() {
            let (None, Some(parent)) = (ids[n + 1], ids[usize::from(place.parent)]) else {
                continue;
            };
            let name = Arc::from(place.name.to_string());
            tree.apply(&Operation::Make { parent, name }).ok()?;
            ids[n + 1] = tree.child(parent, &place.name.to_string());
        }
    }
    let [root, a, b, c] = ids;
    Some((tree, [root?, a?, b?, c?]))
}

/// The product's plan of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Decision {
    Move(Place),
    /// It is there already, or would be below itself; or there is no sound tree.
    Nothing,
    /// The name is taken.
    Exists,
}

pub(super) fn decide(places: &Places, wish: Wish) -> Decision {
    let Some((tree, ids)) = tree(places) else {
        return Decision::Nothing;
    };
    let path = |dir: u8| {
        let components = tree.components(ids[usize::from(dir)]).expect("every directory has a way up");
        components.iter().map(|name| format!("/{name}")).collect::<String>()
    };
    let (from, to) = (path(wish.dir), format!("{}/{}", path(wish.to.parent), wish.to.name));
    match tree.plan_move(FIELD, PathSyntax::default(), &from, &to, &|_| false) {
        Ok(moved) => match moved.operations.as_slice() {
            [] => Decision::Nothing,
            [Operation::Move { id, parent, name }] if *id == ids[usize::from(wish.dir)] => {
                let parent = ids.iter().position(|id| id == parent).expect("a directory of the model");
                Decision::Move(Place {
                    parent: parent as u8,
                    name: name.chars().next().expect("a name"),
                })
            }
            other => unreachable!("what it moves to is there: {other:?}"),
        },
        Err(error) if error.kind() == ErrorKind::TreeExists => Decision::Exists,
        Err(error) if error.kind() == ErrorKind::TreeCycle => Decision::Nothing,
        Err(error) => unreachable!("both directories are there: {error}"),
    }
}

/// Does the product's tree take a move that was planned?
pub(super) fn fits(places: &Places, wish: Wish) -> bool {
    tree(places).is_some_and(|(mut tree, ids)| {
        let operation = Operation::Move {
            id: ids[usize::from(wish.dir)],
            parent: ids[usize::from(wish.to.parent)],
            name: Arc::from(wish.to.name.to_string()),
        };
        tree.apply(&operation).is_ok()
    })
}

/// The rule of S12 that places break.
pub(super) fn unsound(places: &Places) -> Option<&'static str> {
    for (n, place) in places.iter().enumerate() {
        if places[..n].contains(place) {
            return Some("S12: two directories of one name");
        }
        let mut at = place.parent;
        for _ in places {
            if at != 0 {
                at = places[usize::from(at) - 1].parent;
            }
        }
        if at != 0 {
            return Some("S12: a directory does not reach the root");
        }
    }
    None
}
