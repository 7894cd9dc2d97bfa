//! Runs every scenario below `scenarios/`, or those whose path contains `PLEACH_TEST_SCENARIO`.

use std::path::Path;
use std::sync::Mutex;

/// Each has a server of its own, and two cores are to be kept busy.
const THREADS: usize = 4;

#[test]
fn scenarios() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let wanted = std::env::var("PLEACH_TEST_SCENARIO").unwrap_or_default();
    let mut files = Vec::new();
    tests::scenario::collect(&folder, &mut files);
    files.retain(|f| f.to_string_lossy().contains(&wanted));
    files.sort();
    assert!(!files.is_empty(), "no scenarios in {}", folder.display());
    tests::binary();
    let (queue, failures) = (Mutex::new(files.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let Some(file) = queue.lock().unwrap().next() else { break };
                    let name = file.strip_prefix(&folder).unwrap_or(file).display();
                    let done = std::panic::catch_unwind(|| tests::scenario::run(file)).unwrap_or_else(|_| Err("panicked".into()));
                    if let Err(why) = done {
                        failures.lock().unwrap().push(format!("{name}: {why}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    println!("{} of {} scenarios passed", files.len() - failures.len(), files.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
