//! Where a repository may be: below one of the folders that whoever runs the server has given (`path.repo`).
//!
//! A location is compared after its `.` and `..` are taken out, and again after every symbolic link on its way is followed.

use model::{Error, ErrorKind, Result};
use std::io;
use std::path::{Component, Path, PathBuf};

/// The folder of a repository by its `location`.
///
/// # Errors
/// Repository: a location that is none, or that leads out of every folder.
pub fn resolve(repository: &str, location: &str, roots: &[PathBuf]) -> Result<PathBuf> {
    let refuse = |why: String| Err(Error::new(ErrorKind::Repository, format!("[{repository}] {why}")).status_of(400));
    if location.trim().is_empty() {
        return refuse("missing location".to_owned());
    }
    if location.contains('\0') {
        return refuse("location contains a character that no path has".to_owned());
    }
    if roots.is_empty() {
        return refuse(format!(
            "location [{location}] doesn't match any of the locations specified by path.repo because this setting is empty"
        ));
    }
    let outside = || {
        refuse(format!(
            "location [{location}] doesn't match any of the locations specified by path.repo"
        ))
    };
    for root in roots {
        let Some(root) = normalize(root) else { continue };
        let Some(path) = normalize(&root.join(location)) else {
            continue;
        };
        if !path.starts_with(&root) {
            continue;
        }
        return match leads_out(&path, &root) {
            Ok(false) => Ok(path),
            Ok(true) => outside(),
            Err(cause) => refuse(format!("location [{location}] cannot be looked at: {cause}")),
        };
    }
    outside()
}

/// Without `.` and `..`; `None`: it leads above its beginning.
fn normalize(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                if !out.pop() {
                    return None;
                }
            }
            other => out.push(other),
        }
    }
    Some(out)
}

/// Does a symbolic link on the way lead out of the root? Folders that are not there yet lead nowhere.
fn leads_out(path: &Path, root: &Path) -> io::Result<bool> {
    // One that is not there yet is made with the repository; then no link can be in it.
    let root = match root.canonicalize() {
        Ok(root) => root,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e),
    };
    let mut there = path.to_owned();
    loop {
        match there.canonicalize() {
            Ok(real) => return Ok(!real.starts_with(&root)),
            // A link to nothing is there, and may lead anywhere once something is.
            Err(e) if e.kind() == io::ErrorKind::NotFound && there.symlink_metadata().is_ok() => return Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if !there.pop() {
                    return Ok(true);
                }
            }
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_stay_inside() {
        let dir = tempfile::tempdir().unwrap();
        let (root, out) = (dir.path().join("root"), dir.path().join("out"));
        std::fs::create_dir_all(root.join("a")).unwrap();
        std::fs::create_dir_all(&out).unwrap();
        std::os::unix::fs::symlink(&out, root.join("link")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("nothing"), root.join("dangling")).unwrap();
        std::os::unix::fs::symlink(root.join("a"), root.join("within")).unwrap();
        let roots = [dir.path().join("other"), root.clone()];
        let whole = |text: &str| root.join(text).to_string_lossy().into_owned();
        let check = |location: &str, inside: bool| {
            let found = resolve("r", location, &roots);
            assert_eq!(found.is_ok(), inside, "{location}: {found:?}");
            if let Err(e) = found {
                assert_eq!((e.kind(), e.status()), (ErrorKind::Repository, 400), "{e}");
            }
        };
        check(&whole("a"), true);
        check(&whole("new/er"), true);
        check(&whole("a/../b"), true);
        check(&whole("within/x"), true);
        check("relative", true);
        check(&whole("../out"), false);
        check("../../etc", false);
        check("/etc", false);
        check(&whole("link"), false);
        check(&whole("link/deeper"), false);
        check(&whole("dangling/x"), false);
        check("", false);
        check("a\0b", false);
        assert!(resolve("r", &whole("a"), &[]).is_err());
    }
}
