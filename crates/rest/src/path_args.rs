//! The values of the names in an endpoint's path.

/// The parts of a path by their names in the pattern: few, so that they are looked through.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathArgs(Vec<(&'static str, String)>);

impl PathArgs {
    /// None yet, with room for so many.
    pub(crate) fn with_capacity(capacity: usize) -> PathArgs {
        PathArgs(Vec::with_capacity(capacity))
    }
    /// One with this name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
    /// Adds one.
    pub(crate) fn insert(&mut self, name: &'static str, value: String) {
        self.0.push((name, value));
    }
    /// In the order of the path.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}
