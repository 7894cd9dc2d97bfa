//! Where a clause stands in a request, so that what refuses it can say so.

use crate::json::Node;
use model::{Error, ErrorKind};

/// Line and column of a clause, from 1; of one that no request holds, 0. Two clauses that ask the same are the same wherever
/// they stand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// Its line.
    pub line: u32,
    /// Its column.
    pub col: u32,
}

impl PartialEq for Place {
    fn eq(&self, _: &Place) -> bool {
        true
    }
}

impl Place {
    /// Where a value stands.
    pub(crate) fn of(node: &Node) -> Place {
        Place {
            line: node.line,
            col: node.col,
        }
    }

    /// A refusal of the request with this place, unless it already names one.
    pub fn mark(self, error: Error) -> Error {
        let named = |error: &Error| error.details().contains_key("line");
        let placed = std::iter::successors(Some(&error), |error| error.cause()).any(named);
        let of_request = error.status() == 400 && error.kind() != ErrorKind::IndexNotFound;
        if self.line == 0 || placed || !of_request {
            return error;
        }
        error.with("line", self.line).with("col", self.col)
    }
}
