//! A tree beside a model that rewrites every path: random writes, moves, merges and removals, with views, replays and dumps.

use super::{Operation, PathSyntax, Placed, Tree, TreePart, collect, todays_source};
use model::ErrorKind;
use serde_json::json;
use std::collections::BTreeSet;

const FIELD: &str = "path";

/// A random number below `n`.
struct Dice(u64);
impl Dice {
    fn below(&mut self, n: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
    fn path(&mut self) -> String {
        let depth = 1 + self.below(4);
        (0..depth).map(|_| format!("/{}", ["a", "b", "c"][self.below(3)])).collect()
    }
}

/// Every path is a text that moves rewrite.
#[derive(Clone, Default)]
struct Model {
    dirs: BTreeSet<String>,
    /// `None`: it went with its directory.
    docs: Vec<Option<String>>,
}

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Model {
    fn make(&mut self, path: &str) {
        let ends = path
            .char_indices()
            .filter(|(at, letter)| *letter == '/' && *at > 0)
            .map(|(at, _)| at);
        self.dirs.extend(ends.chain([path.len()]).map(|end| path[..end].to_owned()));
    }
    fn move_to(&mut self, from: &str, to: &str, merge: bool) -> Result<(), ErrorKind> {
        if !self.dirs.contains(from) {
            return Err(ErrorKind::TreeMissing);
        }
        if from == to {
            return Ok(());
        }
        if is_below(to, from) {
            return Err(ErrorKind::TreeCycle);
        }
        if self.dirs.contains(to) && !merge {
            return Err(ErrorKind::TreeExists);
        }
        let moved = |path: &String| match is_below(path, from) {
            true => format!("{to}{}", &path[from.len()..]),
            false => path.clone(),
        };
        let dirs: BTreeSet<String> = self.dirs.iter().map(moved).collect();
        self.docs = self.docs.iter().map(|path| path.as_ref().map(moved)).collect();
        self.dirs = dirs;
        self.make(to);
        Ok(())
    }
    fn remove(&mut self, path: &str) -> Result<(), ErrorKind> {
        if !self.dirs.contains(path) {
            return Err(ErrorKind::TreeMissing);
        }
        self.dirs.retain(|dir| !is_below(dir, path));
        for doc in &mut self.docs {
            if doc.as_deref().is_some_and(|doc| is_below(doc, path)) {
                *doc = None;
            }
        }
        Ok(())
    }
}

/// The tree with its documents as they would be stored.
#[derive(Clone, Default)]
struct Real {
    tree: Tree,
    docs: Vec<(String, Placed)>,
}

impl Real {
    fn path_of(&self, doc: usize) -> String {
        let (written, placed) = &self.docs[doc];
        let source = json!({ FIELD: [null, written] }).to_string();
        let todays = todays_source(source.as_bytes(), std::slice::from_ref(placed), &self.tree, &|_| {
            PathSyntax::default()
        });
        let shown: serde_json::Value = serde_json::from_slice(todays.as_deref().unwrap_or(source.as_bytes())).expect("JSON");
        collect(&shown, FIELD).pop().expect("a path")
    }

    fn check(&self, model: &Model, say: &str) {
        let syntax = PathSyntax::default();
        let removed = self.tree.removed_since(0);
        for (n, path) in model.docs.iter().enumerate() {
            let placed = &self.docs[n].1;
            assert_eq!(placed.is_removed(&self.tree), path.is_none(), "{say}: document {n}");
            let is_listed = removed.binary_search(&placed.dirs[0]).is_ok();
            assert_eq!(
                is_listed,
                path.is_none(),
                "{say}: the directories that are gone, and document {n}"
            );
            let Some(path) = path else { continue };
            assert_eq!(self.path_of(n), *path, "{say}: document {n}, written at {}", self.docs[n].0);
        }
        let Some(root) = self.tree.root(FIELD) else { return };
        let mut dirs = BTreeSet::new();
        self.tree.each_within(root, |dir, names| {
            let path = syntax.join(names.iter().copied());
            if names.is_empty() {
                return;
            }
            // A query of a directory and one of its subtree find what the model has there.
            let own: BTreeSet<u32> = self.tree.numbers_of(dir).into_iter().collect();
            let swept = self.tree.sweep_below(dir);
            assert_eq!(
                self.tree.walk_below(dir, usize::MAX).as_deref(),
                Some(&*swept),
                "{say}: below {path}, downwards and upwards"
            );
            let all: BTreeSet<u32> = self.tree.subtree(dir).into_iter().collect();
            for (n, (_, placed)) in self.docs.iter().enumerate() {
                let here = model.docs[n].as_deref();
                assert_eq!(
                    own.contains(&placed.dirs[0]),
                    here == Some(path.as_str()),
                    "{say}: document {n} in {path}"
                );
                let below = here.is_some_and(|here| is_below(here, &path));
                assert_eq!(all.contains(&placed.dirs[0]), below, "{say}: document {n} below {path}");
                let above = syntax.values(&self.tree, placed.dirs[0], TreePart::Tree);
                assert_eq!(above.contains(&path), below, "{say}: {path} above document {n}");
            }
            dirs.insert(path);
        });
        assert_eq!(dirs, model.dirs, "{say}");
    }
}

fn play(seed: u64) {
    let mut dice = Dice(seed);
    let (mut model, mut real) = (Model::default(), Real::default());
    let mut log: Vec<Operation> = Vec::new();
    let mut views: Vec<(Model, Real)> = Vec::new();
    let syntax = PathSyntax::default();
    for step in 0..40 {
        let say = format!("seed {seed}, step {step}");
        let operations = match dice.below(11) {
            0..=4 => {
                let path = dice.path();
                let components = syntax.components(&path).expect("a path");
                let made = real.tree.make_path(&real.tree, FIELD, syntax, &components);
                model.make(&path);
                model.docs.push(Some(path.clone()));
                let placed = Placed {
                    field: FIELD.into(),
                    seq: real.tree.seq(),
                    dirs: vec![made.dir],
                };
                let stored = Placed::from_bytes(FIELD.into(), &placed.to_bytes());
                assert_eq!(stored.as_ref(), Some(&placed), "{say}");
                assert_eq!(
                    Placed::from_json(&serde_json::to_value(&placed).expect("JSON")),
                    stored,
                    "{say}"
                );
                real.docs.push((path, placed));
                made.operations
            }
            5..=8 => {
                let (from, to, merge) = (dice.path(), dice.path(), dice.below(2) == 0);
                let planned = real.tree.plan_move(FIELD, syntax, &from, &to, &|_| merge);
                let expected = model.move_to(&from, &to, merge);
                match planned {
                    Ok(moved) => {
                        assert_eq!(expected, Ok(()), "{say}: {from} to {to}");
                        moved.operations
                    }
                    Err(e) => {
                        assert_eq!(Err(e.kind()), expected, "{say}: {from} to {to}");
                        Vec::new()
                    }
                }
            }
            9 => {
                let path = dice.path();
                let planned = real.tree.plan_removal(FIELD, syntax, &path).map_err(|e| e.kind());
                assert_eq!(planned.clone().map(drop), model.remove(&path), "{say}: removes {path}");
                planned.into_iter().map(|(_, operation)| operation).collect()
            }
            _ => {
                views.push((model.clone(), real.clone()));
                Vec::new()
            }
        };
        for operation in &operations {
            real.tree.apply(operation).expect("planned on this tree");
        }
        log.extend(operations);
        real.check(&model, &say);
    }
    for (model, view) in &views {
        view.check(model, &format!("seed {seed}, a view"));
    }
    // A restart: a dump of any moment and the operations after it.
    let mut replayed = Tree::default();
    let cut = dice.below(log.len() + 1);
    for (n, operation) in log.iter().enumerate() {
        if n == cut {
            replayed = Tree::from_bytes(&replayed.to_bytes()).expect("its own bytes");
        }
        let again = Operation::from_json(&serde_json::to_value(operation).expect("JSON")).expect("its own form");
        replayed.apply(&again).expect("the same order");
    }
    real.tree = Tree::from_bytes(&replayed.to_bytes()).expect("its own bytes");
    real.check(&model, &format!("seed {seed}, after a restart"));
}

/// `PLEACH_TREE_CASES` says how many (2,000).
#[test]
fn as_if_every_path_were_rewritten() {
    let cases = std::env::var("PLEACH_TREE_CASES").ok().and_then(|text| text.parse().ok());
    (0..cases.unwrap_or(2_000)).for_each(play);
}

/// A path that was read before a move leads to where its directory is now.
#[test]
fn a_write_during_a_move_lands_where_the_directory_is() {
    let syntax = PathSyntax::default();
    let mut tree = Tree::default();
    let make = |tree: &mut Tree, then: &Tree, path: &str| {
        let made = tree.make_path(then, FIELD, syntax, &syntax.components(path).expect("a path"));
        made.operations
            .iter()
            .for_each(|operation| tree.apply(operation).expect("planned"));
        made.dir
    };
    let nothing = Tree::default();
    make(&mut tree, &nothing, "/a/b");
    let before = tree.clone();
    let moved = tree.plan_move(FIELD, syntax, "/a", "/x/y", &|_| false).expect("free");
    moved
        .operations
        .iter()
        .for_each(|operation| tree.apply(operation).expect("planned"));
    for (path, expected) in [("/a/b", "/x/y/b"), ("/a/b/new", "/x/y/b/new"), ("/a", "/x/y"), ("/c", "/c")] {
        let dir = make(&mut tree, &before, path);
        assert_eq!(syntax.values(&tree, dir, TreePart::Path), [expected], "{path}");
    }
    let now = tree.clone();
    let dir = make(&mut tree, &now, "/a/b");
    assert_eq!(
        syntax.values(&tree, dir, TreePart::Path),
        ["/a/b"],
        "a later path is another directory"
    );
}

/// Where case does not count, a directory has the name that it was made or moved with.
#[test]
fn names_without_case() {
    let syntax = PathSyntax {
        folds: true,
        ..PathSyntax::default()
    };
    let mut tree = Tree::default();
    let make = |tree: &mut Tree, path: &str| {
        let made = tree.make_path(tree, FIELD, syntax, &syntax.components(path).expect("a path"));
        made.operations
            .iter()
            .for_each(|operation| tree.apply(operation).expect("planned"));
        made.dir
    };
    let dir = make(&mut tree, "/Mara/Orchard");
    assert_eq!(make(&mut tree, "/mara/ORCHARD"), dir);
    let move_to = |tree: &mut Tree, from: &str, to: &str| -> Result<(), ErrorKind> {
        let planned = tree.plan_move(FIELD, syntax, from, to, &|_| false).map_err(|e| e.kind())?;
        planned
            .operations
            .iter()
            .for_each(|operation| tree.apply(operation).expect("planned"));
        Ok(())
    };
    // Another case is another name of the same directory.
    assert_eq!(move_to(&mut tree, "/MARA", "/mara"), Ok(()));
    assert_eq!(syntax.values(&tree, dir, TreePart::Path), ["/mara/Orchard"]);
    assert_eq!(move_to(&mut tree, "/mara", "/MARA/deep"), Err(ErrorKind::TreeCycle));
    make(&mut tree, "/ines");
    assert_eq!(move_to(&mut tree, "/mara", "/Ines"), Err(ErrorKind::TreeExists));
    let tree = Tree::from_bytes(&tree.to_bytes()).expect("its own bytes");
    assert_eq!(tree.resolve(FIELD, &["Mara", "orchard"]), Some(dir));
    assert_eq!(
        tree.resolve(FIELD, &["INES"]).map(|ines| tree.numbers_of(ines).len()),
        Some(1)
    );
}

#[test]
fn paths_that_are_none() {
    let check = |path: &str, at: usize| {
        let error = PathSyntax::default().new_components(path).expect_err(path);
        assert_eq!(error.details()["position"], at, "{path}: {error}");
    };
    check("", 0);
    check("a/b", 0);
    check("/a/../b", 3);
    check("/a/./b", 3);
    check("/a//b", 3);
    check(&format!("/{}", "x".repeat(5000)), 4096);
    check(&"/a".repeat(256), 510);
    assert_eq!(PathSyntax::default().new_components("/a/b/").expect("a path"), ["a", "b"]);
    assert!(PathSyntax::default().components("/").expect("the root").is_empty());
}

/// Bytes that only a stranger can have written, as in a snapshot of no server, are refused: every walk over the tree ends.
#[test]
fn bytes_of_no_tree_are_refused() {
    let syntax = PathSyntax::default();
    let mut tree = Tree::default();
    let made = tree.make_path(&tree, FIELD, syntax, &["a", "b"]);
    made.operations
        .iter()
        .for_each(|operation| tree.apply(operation).expect("planned"));
    let sound = tree.to_bytes();
    assert!(Tree::from_bytes(&sound).is_ok());
    // A directory: a kind, the number of another one, the operation that moved it, its name.
    const HEAD: usize = 24;
    let root = 1 + 4 + 8 + 4 + FIELD.len();
    let (a, b) = (HEAD + root, HEAD + root + 18);
    let check = |changes: &[(usize, &[u8])], why: &str| {
        let mut bytes = sound.clone();
        for (at, change) in changes {
            bytes[*at..at + change.len()].copy_from_slice(change);
        }
        assert!(Tree::from_bytes(&bytes).is_err(), "{why}");
    };
    check(&[(a + 1, &1u32.to_le_bytes())], "a directory in itself");
    check(&[(a + 1, &2u32.to_le_bytes())], "two directories in each other");
    check(
        &[(HEAD, &[3]), (a + 1, &2u32.to_le_bytes())],
        "the same where case does not count",
    );
    check(&[(b + 1, &9u32.to_le_bytes())], "a directory in one that was never made");
    check(&[(b, &[1]), (b + 1, &2u32.to_le_bytes())], "a directory merged into itself");
    check(&[(a, &[1])], "a directory in a merged one");
    check(&[(b + 1, &0u32.to_le_bytes()), (b + 17, b"a")], "two directories of one name");
    check(&[(a + 5, &7u64.to_le_bytes())], "a move that no operation made");
    check(&[(8, &2u64.to_le_bytes())], "more directories than operations");
}
