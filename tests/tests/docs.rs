//! The commands of README.md and of docs/**/*.md are played, each document from its top against a server of its own.
//!
//! A block is fenced, and its word says what it is:
//!
//! * `sh`: commands, ready to be pasted into a terminal. All blocks of a document run in one shell, in order. The default address
//!   stands for the server's (9202 for a listener of persona `es2`), `pleach` for the binary, and the folder has `crates`, `docs` and `examples`
//!   as the repository has them.
//!   A request that is not answered 2xx fails, so does a search that finds nothing, and a command that ends with another code than 0.
//! * `json`, `toml`: an answer, a body or a file; it must be readable.
//! * `text`: anything else that is not to be pasted.
//!
//! A comment ahead of a block changes this: `<!-- answered 409 -->` is the status of each request in the block,
//! `<!-- not played: REASON -->` says why the block cannot be played. Blocks by indentation are refused.
//!
//! `<!-- server: NAME=VALUE -->` anywhere on a page is a setting of its server; `pleach-data` is its data folder.
//!
//! `examples/*.sh` are played as they stand. Not here: what the answers hold; the examples and the scenarios check that.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tests::Server;

/// The longest a document may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    /// Of its first line in the document, from 1.
    line: usize,
    language: String,
    text: String,
    /// The status that each request is answered with; 2xx if it is not said.
    status: Option<u16>,
    /// Why it is not played.
    excuse: Option<String>,
}

/// The blocks of a document.
///
/// # Errors
/// A block that no rule covers, with its line.
fn blocks(text: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut remark: Option<&str> = None;
    let (mut blank, mut list) = (true, false);
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else {
            if blank && !list && line.starts_with("    ") && !line.trim().is_empty() {
                return Err(format!("line {number}: a block by indentation; fence it and say what it is"));
            }
            if line.trim_start().starts_with("<!--") {
                remark = Some(line.trim());
            } else if !line.trim().is_empty() {
                remark = None;
                list = line.starts_with(['*', '-', ' ']) || line.starts_with(|c: char| c.is_ascii_digit());
            }
            blank = line.trim().is_empty();
            continue;
        };
        let mut block = Block {
            line: number + 1,
            language: language.trim().to_owned(),
            text: String::new(),
            status: None,
            excuse: None,
        };
        loop {
            match lines.next() {
                None => return Err(format!("line {number}: the block does not end")),
                Some((_, end)) if end.trim() == "```" => break,
                Some((_, line)) => block.text.push_str(&format!("{line}\n")),
            }
        }
        if let Some(remark) = remark.take() {
            let words = remark.trim_start_matches("<!--").trim_end_matches("-->").trim();
            if let Some(status) = words.strip_prefix("answered ") {
                block.status = Some(
                    status
                        .parse()
                        .map_err(|_| format!("line {number}: no status in [{remark}]"))?,
                );
            } else if let Some(reason) = words.strip_prefix("not played: ") {
                block.excuse = Some(reason.to_owned());
            }
        }
        check(&block).map_err(|why| format!("line {number}: {why}"))?;
        blocks.push(block);
        blank = false;
    }
    Ok(blocks)
}

/// Refuses a block that is not what its word says.
fn check(block: &Block) -> Result<(), String> {
    match block.language.as_str() {
        "sh" | "text" => Ok(()),
        "json" => serde_json::from_str::<serde_json::Value>(&block.text)
            .map(drop)
            .map_err(|cause| format!("the block is not JSON: {cause}")),
        "toml" => block
            .text
            .parse::<toml::Table>()
            .map(drop)
            .map_err(|cause| format!("the block is not TOML: {cause}")),
        other => Err(format!("[{other}] is none of sh, json, toml, text")),
    }
}

/// The script that plays the blocks: functions in the place of `curl` and `pleach`, then block after block.
fn script(blocks: &[Block]) -> String {
    let mut script = String::from(PRELUDE);
    for block in blocks.iter().filter(|b| b.language == "sh" && b.excuse.is_none()) {
        let status = block.status.map_or_else(|| "2".to_owned(), |status| status.to_string());
        let _ = writeln!(script, "BLOCK={}; STATUS={status}", block.line);
        script.push_str(&block.text);
        script.push('\n');
    }
    script.push_str("BLOCK=end\n");
    script
}

/// `curl` notes a status that is not the block's, and a search without hits: in `id=$(curl .. | sed ..)` its own end would be lost.
const PRELUDE: &str = r#"set -eu
BLOCK=0
trap 'test "$BLOCK" = end || echo "the commands ended in the block of line $BLOCK" >>"$FAILURES"' EXIT
curl() {
  got=$(mktemp "$FOLDER/answer.XXXXXX")
  code=$(command curl -sS -o "$got" -w '%{http_code}' "$@") || echo "line $BLOCK: curl $*" >>"$FAILURES"
  cat "$got"
  case $code in
    $STATUS*) ;;
    *) { echo "line $BLOCK: answered $code: curl $*"; cat "$got"; echo; } >>"$FAILURES" ;;
  esac
  case "$*" in *_search*)
    if tr -d ' \n' <"$got" | grep -q '"hits":{"total":{"value":0,'; then
      echo "line $BLOCK: nothing is found: curl $*" >>"$FAILURES"
    fi ;;
  esac
}
pleach() {
  case "$1" in
    import|get|put|search|count|indices|tasks|top|bulk|export|changes|replicate|backup|restore) asked=$1; shift; command pleach "$asked" --url "http://$ADDRESS" "$@" ;;
    user|apikey) command pleach "$@" --url "http://$ADDRESS" ;;
    lock) shift 2; command pleach lock run --url "http://$ADDRESS" "$@" ;;
    *) command pleach "$@" ;;
  esac
}
"#;

/// Plays a script on a server of its own; the failures in words.
fn play(script: &str, arguments: &[String], settings: &[&str]) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let repositories = format!("path.repo={}", folder.path().join("work/backups").display());
    let settings: Vec<&str> = settings.iter().copied().chain([repositories.as_str()]).collect();
    let server = Server::start_with(&folder.path().join("data"), &["es8", "es2"], &settings);
    let binaries = folder.path().join("bin");
    std::fs::create_dir(&binaries).map_err(|e| e.to_string())?;
    std::os::unix::fs::symlink(tests::binary(), binaries.join("pleach")).map_err(|e| e.to_string())?;
    let work = folder.path().join("work");
    std::fs::create_dir(&work).map_err(|e| e.to_string())?;
    std::os::unix::fs::symlink(folder.path().join("data"), work.join("pleach-data")).map_err(|e| e.to_string())?;
    for name in ["crates", "docs", "examples"] {
        std::os::unix::fs::symlink(tests::root().join(name), work.join(name)).map_err(|e| e.to_string())?;
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let failures = folder.path().join("failures");
    let printed = std::fs::File::create(folder.path().join("printed")).map_err(|e| e.to_string())?;
    let script = script
        .replace("127.0.0.1:9200", server.address("es8"))
        .replace("127.0.0.1:9202", server.address("es2"));
    let mut command = Command::new("sh");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PLEACH_") {
            command.env_remove(name);
        }
    }
    command
        .arg("-c")
        .arg(script)
        .arg("sh")
        .args(arguments.iter().map(|a| a.replace("ADDRESS", server.address("es8"))))
        .env("PATH", format!("{}:{path}", binaries.display()))
        .env("ADDRESS", server.address("es8"))
        .env("FOLDER", folder.path())
        .env("FAILURES", &failures)
        .current_dir(&work)
        .stdin(Stdio::null())
        .stdout(printed.try_clone().map_err(|e| e.to_string())?)
        .stderr(printed);
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it took more than {PATIENCE:?}"));
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let failures = std::fs::read_to_string(failures).unwrap_or_default();
    if status.success() && failures.is_empty() {
        return Ok(());
    }
    let printed = std::fs::read(folder.path().join("printed")).unwrap_or_default();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    let last: Vec<&str> = printed.lines().rev().take(5).collect();
    let last: Vec<&str> = last.into_iter().rev().collect();
    Err(format!("{failures}{status}; the last that was printed:\n{}", last.join("\n")))
}

/// The settings of a page's server.
fn settings_of(page: &str) -> Vec<&str> {
    let remarks = page.lines().filter_map(|line| line.trim().strip_prefix("<!-- server: "));
    remarks.map(|remark| remark.trim_end_matches("-->").trim()).collect()
}

/// README.md and the pages below docs/.
fn documents() -> Vec<PathBuf> {
    fn collect(folder: &Path, into: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                collect(&path, into);
            } else if path.extension().is_some_and(|e| e == "md") {
                into.push(path);
            }
        }
    }
    let mut files = vec![tests::root().join("README.md")];
    collect(&tests::root().join("docs"), &mut files);
    files.sort();
    files
}

#[test]
fn the_commands_of_every_document_run() {
    let mut wrong = Vec::new();
    let mut played = 0;
    for file in documents() {
        let name = file.strip_prefix(tests::root()).unwrap_or(&file).display().to_string();
        let text = std::fs::read_to_string(&file).expect("the document can be read");
        let found = match blocks(&text) {
            Ok(blocks) => blocks,
            Err(why) => {
                wrong.push(format!("{name}: {why}"));
                continue;
            }
        };
        let commands = found.iter().filter(|b| b.language == "sh" && b.excuse.is_none()).count();
        if commands > 0 {
            played += commands;
            if let Err(why) = play(&script(&found), &[], &settings_of(&text)) {
                wrong.push(format!("{name}: {why}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} documents:\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(played > 20, "only {played} blocks were found");
}

/// The scripts of `examples/`, in their order.
fn shell_examples() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(tests::root().join("examples")).expect("examples can be listed");
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "sh"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "examples/ has no script");
    files
}

#[test]
fn the_examples_run() {
    for file in shell_examples() {
        // Twice on one server: an example may be run again.
        let run = format!("sh '{0}' \"$1\" && sh '{0}' \"$1\"", file.display());
        if let Err(why) = play(&run, &["http://ADDRESS".to_owned()], &[]) {
            panic!("{}: {why}", file.display());
        }
    }
}

/// Whole indices that a command deletes, by their names in the URL; documents and other things are none.
fn deleted_indices(script: &str) -> Vec<String> {
    let request = regex::Regex::new(r#"DELETE\s+["']?(?:\$url|https?://[^/\s"']+)?/([^?"'\s]*)"#).expect("a regular expression");
    let whole = |path: &str| !path.starts_with('_') && !path.trim_end_matches('/').contains('/');
    request
        .captures_iter(script)
        .map(|found| found[1].to_owned())
        .filter(|path| whole(path))
        .flat_map(|path| path.split(',').map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// Who pastes an example loses no index of a common name: those that examples delete end with `-example`.
#[test]
fn examples_delete_only_indices_of_their_own() {
    assert_eq!(
        deleted_indices("curl -X DELETE \"$url/orders,a-example?x\""),
        ["orders", "a-example"]
    );
    assert_eq!(deleted_indices("curl -X DELETE 'http://127.0.0.1:9200/*'"), ["*"]);
    assert_eq!(
        deleted_indices("a DELETE /_doc/1\ncurl -X DELETE http://h/i/_doc/1"),
        Vec::<String>::new()
    );
    let mut scripts = Vec::new();
    for file in shell_examples() {
        let text = std::fs::read_to_string(&file).expect("an example can be read");
        scripts.push((file, text));
    }
    for file in documents() {
        let text = std::fs::read_to_string(&file).expect("the document can be read");
        let commands = blocks(&text).into_iter().flatten().filter(|block| block.language == "sh");
        let commands: Vec<String> = commands.map(|block| block.text).collect();
        scripts.push((file, commands.join("\n")));
    }
    let found: Vec<(String, String)> = scripts
        .iter()
        .flat_map(|(file, script)| {
            deleted_indices(script)
                .into_iter()
                .map(|index| (file.display().to_string(), index))
        })
        .collect();
    assert!(found.len() >= 4, "{found:?}");
    let common: Vec<_> = found.iter().filter(|(_, index)| !index.ends_with("-example")).collect();
    assert!(common.is_empty(), "{common:?}");
}

#[test]
fn links_lead_somewhere() {
    let link = regex::Regex::new(r"\]\(([^)#\s]+)(#[^)]*)?\)").expect("a regular expression");
    let mut wrong = Vec::new();
    for file in documents() {
        let text = std::fs::read_to_string(&file).expect("the document can be read");
        for found in link.captures_iter(&text) {
            let to = &found[1];
            let folder = file.parent().expect("a file stands in a folder");
            if !to.contains("://") && !folder.join(to).exists() {
                wrong.push(format!("{}: [{to}]", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "links to nothing:\n{}", wrong.join("\n"));
}

#[test]
fn blocks_are_found_by_their_rules() {
    let text = "a\n\n```sh\necho 1\n```\n<!-- answered 409 -->\n```sh\ncurl x\n```\n\n<!-- not played: it takes long -->\n```sh\nmake\n```\n";
    let found = blocks(text).expect("they are well formed");
    assert_eq!(found.len(), 3);
    assert_eq!(
        (found[0].line, found[0].text.as_str(), found[0].status),
        (4, "echo 1\n", None)
    );
    assert_eq!(found[1].status, Some(409));
    assert_eq!(found[2].excuse.as_deref(), Some("it takes long"));
    let script = script(&found);
    assert!(script.contains("STATUS=409\ncurl x") && !script.contains("make"), "{script}");
    for (text, expected) in [
        ("a\n\n    echo\n", "line 3: a block by indentation"),
        ("```\nx\n```\n", "none of sh"),
        ("```json\n{..}\n```\n", "not JSON"),
        ("```sh\nx\n", "does not end"),
        ("<!-- answered soon -->\n```sh\nx\n```\n", "no status"),
    ] {
        let got = blocks(text).expect_err("it is a mistake");
        assert!(got.contains(expected), "{text}: {got}");
    }
}

#[test]
fn a_refusal_and_a_failing_command_are_seen() {
    let failure = |text: &str| {
        play(&script(&blocks(text).expect("well formed")), &[], &[])
            .err()
            .unwrap_or_default()
    };
    assert_eq!(failure("```sh\ncurl 'http://127.0.0.1:9200/'\n```\n"), "");
    assert!(failure("```sh\nx=$(curl 'http://127.0.0.1:9200/none/_doc/1' | cat)\n```\n").contains("answered 404"));
    assert_eq!(
        failure("<!-- answered 404 -->\n```sh\ncurl 'http://127.0.0.1:9200/none/_doc/1'\n```\n"),
        ""
    );
    assert!(failure("<!-- answered 404 -->\n```sh\ncurl 'http://127.0.0.1:9200/'\n```\n").contains("answered 200"));
    assert!(failure("```sh\nfalse\n```\n").contains("block of line 2"));
    let empty = "```sh\ncurl -X PUT 'http://127.0.0.1:9200/i'\ncurl 'http://127.0.0.1:9200/i/_search?pretty'\n```\n";
    assert!(failure(empty).contains("line 2: nothing is found"));
}
