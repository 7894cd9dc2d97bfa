//! How far an import came, kept in a file, so that the same command goes on there after it was interrupted.
//!
//! The file is replaced as a whole after each request that was answered, and removed at the end. A request that was sent and not
//! noted is sent again. That doubles nothing: a document without an id gets one here, made of a number of the import and of its place.
//!
//! Not here: passing over what was done (`folder`, `records`, `remote`).

use model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Where the input goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum InputPosition {
    #[default]
    Beginning,
    /// Behind so many lines, rows or elements.
    Records(u64),
    /// Behind this file of a folder.
    File(String),
    /// Behind these indices of another server.
    Indices(Vec<String>),
}

/// The contents of the file.
#[derive(Debug, Serialize, Deserialize)]
struct ProgressFile {
    /// The file, folder or server that is read.
    source: String,
    /// A random number of this import, as text.
    import: String,
    place: InputPosition,
}

/// How far an import came.
#[derive(Debug)]
pub(super) struct Progress {
    /// `None`: nothing is kept.
    file: Option<(PathBuf, ProgressFile)>,
}

impl Progress {
    /// Of an import that is not kept.
    pub(super) fn none() -> Progress {
        Progress { file: None }
    }

    /// The progress in this file; without one, or without a file there, from the beginning.
    ///
    /// # Errors
    /// A file that cannot be read, or is that of another source.
    pub(super) fn open(file: Option<&Path>, source: &str) -> Result<Progress> {
        let Some(path) = file else { return Ok(Progress::none()) };
        let shown = path.display();
        let kept = match std::fs::read(path) {
            Ok(text) => serde_json::from_slice::<ProgressFile>(&text).map_err(|cause| {
                Error::illegal(format!(
                    "[{shown}] does not say how far an import came: {cause}; name another file with --resume, or remove it"
                ))
            })?,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => ProgressFile {
                source: source.to_owned(),
                import: random_number()?,
                place: InputPosition::Beginning,
            },
            Err(cause) => return Err(Error::illegal(format!("cannot read [{shown}]: {cause}"))),
        };
        if kept.source != source {
            return Err(Error::illegal(format!(
                "[{shown}] says how far the import of [{}] came, and this one reads [{source}]; name another file with --resume",
                kept.source
            )));
        }
        let progress = Progress {
            file: Some((path.to_owned(), kept)),
        };
        // A place where nothing can be written is found before anything is sent.
        progress.write()?;
        Ok(progress)
    }

    /// Where the input goes on.
    pub(super) fn place(&self) -> InputPosition {
        self.file.as_ref().map(|(_, kept)| kept.place.clone()).unwrap_or_default()
    }

    /// The lines, rows or elements that are done.
    pub(super) fn records(&self) -> u64 {
        match self.place() {
            InputPosition::Records(records) => records,
            _ => 0,
        }
    }

    /// The id of a document without one; `None` where nothing is kept, so that the server makes it.
    pub(super) fn id_of_record(&self, number: u64) -> Option<String> {
        self.file.as_ref().map(|(_, kept)| format!("{}-{number}", kept.import))
    }

    /// All before this place is done.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn advance(&mut self, place: &InputPosition) -> Result<()> {
        if let Some((_, kept)) = &mut self.file {
            kept.place = place.clone();
        }
        self.write()
    }

    /// The import is done: another begins anew.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(super) fn finish(&self) -> Result<()> {
        let Some((path, _)) = &self.file else { return Ok(()) };
        std::fs::remove_file(path).map_err(|cause| {
            let reason = format!("the import is done, but [{}] cannot be removed: {cause}", path.display());
            Error::new(ErrorKind::Internal, reason)
        })
    }

    /// Writes a new file, then puts it in the place of the old one.
    fn write(&self) -> Result<()> {
        let Some((path, kept)) = &self.file else { return Ok(()) };
        let mut beside = path.clone().into_os_string();
        beside.push(".new");
        let write = || -> std::io::Result<()> {
            let mut new = std::fs::File::create(&beside)?;
            new.write_all(&serde_json::to_vec(kept)?)?;
            new.sync_data()?;
            std::fs::rename(&beside, path)
        };
        write().map_err(|cause| {
            let reason = format!(
                "cannot write [{}], which says how far the import came: {cause}",
                path.display()
            );
            Error::new(ErrorKind::Internal, reason)
        })
    }
}

/// 128 random bits, in hexadecimal digits.
fn random_number() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|cause| Error::new(ErrorKind::Internal, format!("the system gives no random numbers: {cause}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_where_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("progress");
        let open = |source| Progress::open(Some(&file), source);
        let mut first = open("a.ndjson").expect("it begins");
        assert_eq!(first.place(), InputPosition::Beginning);
        let id = first.id_of_record(7);
        first.advance(&InputPosition::Records(7)).expect("it is written");
        let again = open("a.ndjson").expect("it goes on");
        assert_eq!((again.records(), again.id_of_record(7)), (7, id));
        let other = open("b.ndjson").expect_err("it is of another source");
        assert!(other.reason().contains("[a.ndjson]"), "{other}");
        again.finish().expect("it is removed");
        assert_eq!(open("b.ndjson").expect("it begins").records(), 0);
        std::fs::write(&file, "{").expect("it is written");
        assert!(open("b.ndjson").is_err(), "half a file is refused");
        assert_eq!(Progress::none().id_of_record(1), None);
    }
}
