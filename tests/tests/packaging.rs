//! The packages that `packaging/` makes: contents, modes, the unit, and a server that starts from what was packed.
//!
//! The binary is the one under test; whether the handed-out one is static is checked by `packaging/static.sh`.

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use tests::Server;

fn packaging() -> std::path::PathBuf {
    tests::root().join("packaging")
}

fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// What a program prints; it must succeed.
fn output(command: &mut Command) -> String {
    let done = command.output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        done.status.success(),
        "{command:?}: {text}{}",
        String::from_utf8_lossy(&done.stderr)
    );
    text
}

#[test]
fn the_unit_is_sound_and_exposes_little() {
    if !is_there("systemd-analyze") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(packaging().join("pleach.service")).unwrap();
    for line in [
        "Type=notify",
        "WatchdogSec=60s",
        "StateDirectory=pleach",
        "User=pleach",
        "NoNewPrivileges=yes",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line}");
    }
    // Neither the binary nor the page is installed here.
    let text = text.replace("/usr/bin/pleach", tests::binary().to_str().unwrap());
    let text: String = text
        .lines()
        .filter(|line| !line.starts_with("Documentation="))
        .map(|line| format!("{line}\n"))
        .collect();
    let unit = folder.path().join("pleach.service");
    std::fs::write(&unit, text).unwrap();
    let done = Command::new("systemd-analyze").arg("verify").arg(&unit).output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    let about_it: Vec<&str> = told.lines().filter(|line| line.contains("pleach.service")).collect();
    assert!(about_it.is_empty(), "{about_it:?}");
    let mut security = Command::new("systemd-analyze");
    // The threshold is ten times the level that is printed.
    output(
        security
            .args(["security", "--no-pager", "--offline=true", "--threshold=15"])
            .arg(&unit),
    );
}

/// Takes the variables of the tests away: they are no settings of a server.
fn without_own_variables(command: &mut Command) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PLEACH_")) {
        command.env_remove(name);
    }
}

/// The table of a package's files: path to mode and owner.
fn files(package: &Path) -> BTreeMap<String, (String, String)> {
    let listed = output(Command::new("dpkg-deb").arg("-c").arg(package));
    let rows = listed.lines().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[5].to_owned(), (words[0].to_owned(), words[1].to_owned()))
    });
    rows.collect()
}

#[test]
fn a_debian_package_has_what_it_needs_and_its_server_starts() {
    if !is_there("dpkg-deb") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut build = Command::new(packaging().join("deb.sh"));
    // Compressing the binary of a debug build would take half a minute.
    build.arg(tests::binary()).arg(folder.path()).env("COMPRESSION", "none");
    without_own_variables(&mut build);
    let package = output(&mut build);
    let package = Path::new(package.trim());
    let found = files(package);
    for (path, mode) in [
        ("./usr/bin/pleach", "-rwxr-xr-x"),
        ("./lib/systemd/system/pleach.service", "-rw-r--r--"),
        ("./etc/pleach/pleach.toml", "-rw-r--r--"),
        ("./usr/share/man/man1/pleach.1.gz", "-rw-r--r--"),
        ("./usr/share/bash-completion/completions/pleach", "-rw-r--r--"),
        ("./usr/share/zsh/vendor-completions/_pleach", "-rw-r--r--"),
        ("./usr/share/fish/vendor_completions.d/pleach.fish", "-rw-r--r--"),
        ("./usr/share/doc/pleach/copyright", "-rw-r--r--"),
    ] {
        let (got, owner) = found.get(path).unwrap_or_else(|| panic!("no {path} in {found:#?}"));
        assert_eq!((got.as_str(), owner.as_str()), (mode, "root/root"), "{path}");
    }
    assert!(
        found
            .iter()
            .all(|(path, (mode, _))| !path.ends_with('/') || mode == "drwxr-xr-x"),
        "{found:#?}"
    );
    let field = |name: &str| {
        output(Command::new("dpkg-deb").arg("-f").arg(package).arg(name))
            .trim()
            .to_owned()
    };
    assert_eq!(
        (field("Package"), field("Version")),
        ("pleach".to_owned(), env!("CARGO_PKG_VERSION").to_owned())
    );
    assert!(field("Depends").contains("adduser"), "{}", field("Depends"));
    let control = folder.path().join("control");
    output(Command::new("dpkg-deb").arg("-e").arg(package).arg(&control));
    assert_eq!(
        std::fs::read_to_string(control.join("conffiles")).unwrap(),
        "/etc/pleach/pleach.toml\n"
    );
    for script in ["postinst", "prerm", "postrm"] {
        output(Command::new("sh").arg("-n").arg(control.join(script)));
    }
    let tree = folder.path().join("tree");
    output(Command::new("dpkg-deb").arg("-x").arg(package).arg(&tree));
    output(
        Command::new("md5sum")
            .arg("-c")
            .arg(control.join("md5sums"))
            .current_dir(&tree),
    );
    let page = output(
        Command::new("gzip")
            .arg("-dc")
            .arg(tree.join("usr/share/man/man1/pleach.1.gz")),
    );
    assert!(page.contains(".TH pleach 1"), "{page}");
    // The unit's command line, with folders of this test in the place of the machine's.
    let mut unit = Command::new(tree.join("usr/bin/pleach"));
    without_own_variables(&mut unit);
    unit.env("PLEACH_CONFIG", tree.join("etc/pleach/pleach.toml"));
    let mut server = Server::start_by(unit, &folder.path().join("data"), &["es8"], &[], &[]);
    assert_eq!(server.ok("GET", "/readyz", &Value::Null)["status"], "pass");
    server.ok("PUT", "/i/_doc/1", &serde_json::json!({ "a": 1 }));
    server.signal(libc::SIGTERM);
    assert_eq!(server.wait(std::time::Duration::from_secs(10)).unwrap().code(), Some(0));
}

#[test]
fn an_image_is_the_binary_alone_and_the_same_at_every_run() {
    if !is_there("python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("pleach");
    std::fs::write(&binary, "#!/bin/sh\necho 'pleach 9.9.9 (0123456789ab)'\n").unwrap();
    output(Command::new("chmod").arg("0755").arg(&binary));
    let make = |name: &str| {
        let layout = folder.path().join(name);
        let archive = output(Command::new(packaging().join("oci.py")).arg(&binary).arg(&layout));
        (layout, std::fs::read(archive.trim()).unwrap())
    };
    let (layout, archive) = make("one");
    let (_, again) = make("two");
    assert!(archive == again, "two runs differ");
    let read = |path: &Path| serde_json::from_slice::<Value>(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(read(&layout.join("oci-layout"))["imageLayoutVersion"], "1.0.0");
    let blob = |described: &Value| {
        let digest = described["digest"]
            .as_str()
            .unwrap()
            .strip_prefix("sha256:")
            .unwrap()
            .to_owned();
        let path = layout.join("blobs/sha256").join(&digest);
        let sum = output(Command::new("sha256sum").arg(&path));
        assert!(sum.starts_with(&digest), "{sum} is not of {digest}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), described["size"].as_u64().unwrap());
        path
    };
    let index = read(&layout.join("index.json"));
    assert_eq!(
        index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"],
        "9.9.9"
    );
    let manifest = read(&blob(&index["manifests"][0]));
    let config = read(&blob(&manifest["config"]));
    assert_eq!(
        (&config["os"], &config["config"]["User"]),
        (&"linux".into(), &"10001:10001".into())
    );
    let layer = blob(&manifest["layers"][0]);
    let unpacked = folder.path().join("layer.tar");
    std::fs::write(
        &unpacked,
        Command::new("gzip").arg("-dc").arg(&layer).output().unwrap().stdout,
    )
    .unwrap();
    let sum = output(Command::new("sha256sum").arg(&unpacked));
    let diff = config["rootfs"]["diff_ids"][0]
        .as_str()
        .unwrap()
        .strip_prefix("sha256:")
        .unwrap()
        .to_owned();
    assert!(sum.starts_with(&diff), "{sum}");
    let listed = output(Command::new("tar").arg("-tvf").arg(&unpacked));
    let names: Vec<&str> = listed.lines().map(|line| line.split_whitespace().last().unwrap()).collect();
    assert_eq!(names, ["data/", "tmp/", "pleach"], "{listed}");
    assert!(
        listed.lines().next().unwrap().starts_with("drwx------ 10001/10001"),
        "{listed}"
    );
    // Without a binary it says what to do.
    let refused = Command::new(packaging().join("oci.py"))
        .arg(folder.path().join("none"))
        .output()
        .unwrap();
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("packaging/static.sh"));
}
