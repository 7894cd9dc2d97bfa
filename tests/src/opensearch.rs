//! Starts one real OpenSearch node from Maven's jars, on free ports, with a folder of its own. It ends when dropped, and
//! with this process, whatever becomes of it.
//!
//! The jars are fetched once into the target folder. `PLEACH_TEST_CLUSTER=host:port` names one that is running already.
//! Without a JDK of 17 or newer and Maven nothing is started, and the test says so; with `PLEACH_REQUIRE_CLUSTER=1` that
//! is a failure.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const VERSION: &str = "2.19.5";
const HEAP: &str = "512m";
const START_MAX: Duration = Duration::from_secs(180);

/// A running node.
#[derive(Debug)]
pub struct OpenSearch {
    /// `host:port` of its HTTP.
    pub address: String,
    running: Option<(Child, tempfile::TempDir)>,
}

impl Drop for OpenSearch {
    fn drop(&mut self) {
        if let Some((child, _)) = &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A node that answers, or nothing where it cannot be had.
///
/// # Panics
/// It cannot be had and is required; it does not start.
pub fn start() -> Option<OpenSearch> {
    if let Ok(address) = std::env::var("PLEACH_TEST_CLUSTER") {
        return Some(OpenSearch { address, running: None });
    }
    let java = java().or_else(|| missing("no JDK of 17 or newer"))?;
    let installed = install(&java).or_else(|| missing("the jars of OpenSearch could not be fetched with Maven"))?;
    Some(launch(&java, &installed))
}

fn missing<T>(what: &str) -> Option<T> {
    let required = std::env::var("PLEACH_REQUIRE_CLUSTER").is_ok_and(|v| v == "1");
    assert!(!required, "PLEACH_REQUIRE_CLUSTER=1, but: {what}");
    eprintln!("SKIPPED, no real cluster: {what}");
    None
}

/// The folder of `java` and `javac`.
fn java() -> Option<PathBuf> {
    let home = std::env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin"));
    let on_path = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).collect::<Vec<_>>())
        .unwrap_or_default();
    home.into_iter().chain(on_path).find(|bin| {
        let Ok(said) = Command::new(bin.join("javac")).arg("-version").output() else {
            return false;
        };
        let text = String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
        let release = text
            .split_whitespace()
            .nth(1)
            .and_then(|v| v.split('.').next())
            .and_then(|v| v.parse::<u32>().ok());
        release.is_some_and(|release| release >= 17)
    })
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| folder.join("tests/opensearch"))
        .find(|folder| folder.join("pom.xml").is_file())
        .expect("the launcher stands in the repository")
}

/// Jars and the compiled launcher in the target folder; the jars are fetched once.
fn install(java: &Path) -> Option<PathBuf> {
    let own = std::env::current_exe().expect("a test has a path");
    // target/PROFILE/deps/test
    let target = own.ancestors().nth(3).expect("a test stands in a target folder");
    let home = target.join(format!("opensearch-{VERSION}"));
    let (jars, classes) = (home.join("lib"), home.join(format!("classes-{}", std::process::id())));
    if !jars.is_dir() {
        let fresh = home.join(format!("lib-{}", std::process::id()));
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", "-f"]).arg(sources().join("pom.xml"));
        maven.arg("org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies");
        maven
            .arg("-DincludeScope=runtime")
            .arg(format!("-DoutputDirectory={}", fresh.display()));
        if !maven.status().is_ok_and(|status| status.success()) {
            return None;
        }
        // Whoever was faster has the same.
        let _ = std::fs::rename(&fresh, &jars);
    }
    std::fs::create_dir_all(&classes).expect("the target folder can be written");
    let mut javac = Command::new(java.join("javac"));
    javac.args(["-nowarn", "-proc:none", "-d"]).arg(&classes);
    javac
        .arg("-cp")
        .arg(format!("{}/*", jars.display()))
        .arg(sources().join("Cluster.java"));
    assert!(javac.status().expect("javac runs").success(), "the launcher does not compile");
    Some(home)
}

fn launch(java: &Path, home: &Path) -> OpenSearch {
    let data = tempfile::tempdir().expect("a temporary folder");
    let folder = data.path();
    let log = std::fs::File::create(folder.join("out.log")).expect("a log");
    let classes = home.join(format!("classes-{}", std::process::id()));
    let mut command = Command::new(java.join("java"));
    command
        .args([format!("-Xms{HEAP}"), format!("-Xmx{HEAP}")])
        .args([
            "-Xss1m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Djava.security.manager=allow",
        ])
        .args([
            "-Dlog4j2.disable.jmx=true",
            "-Djava.locale.providers=SPI,CLDR",
            "-Djna.nosys=true",
        ])
        .arg(format!(
            "-Dlog4j2.configurationFile={}",
            sources().join("log4j2.properties").display()
        ))
        .arg("-cp")
        .arg(format!("{}:{}/lib/*", classes.display(), home.display()))
        .arg("Cluster")
        .arg(format!("path.home={}", folder.display()))
        .args(["cluster.name=pleach-test", "node.name=node", "network.host=127.0.0.1"])
        .args([
            "http.port=0",
            "transport.port=0",
            "discovery.type=single-node",
            "node.portsfile=true",
        ])
        .args([
            "action.auto_create_index=false",
            "cluster.routing.allocation.disk.threshold_enabled=false",
        ])
        .stdin(Stdio::piped())
        .stdout(log.try_clone().expect("a log"))
        .stderr(log);
    let mut child = command.spawn().expect("java starts");
    let began = Instant::now();
    let ports = folder.join("logs/http.ports");
    loop {
        let ended = child.try_wait().expect("a child can be asked");
        let said = || std::fs::read_to_string(folder.join("out.log")).unwrap_or_default();
        assert!(ended.is_none(), "OpenSearch ended: {}", said());
        assert!(
            began.elapsed() < START_MAX,
            "OpenSearch is not ready after {START_MAX:?}: {}",
            said()
        );
        let text = std::fs::read_to_string(&ports).unwrap_or_default();
        if let Some(address) = text.lines().find(|line| line.starts_with("127.0.0.1:")) {
            let address = address.to_owned();
            let _ = std::fs::remove_dir_all(classes);
            return OpenSearch {
                address,
                running: Some((child, data)),
            };
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
