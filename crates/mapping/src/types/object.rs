//! Types without values of their own: `alias` points to another field. Objects are in `mapping`.

use crate::spec::{Param, Shape::*};

pub(crate) const ALIAS_PARAMS: &[Param] = &[Param("path", Text, "", true)];
