//! Logs to standard error: text or lines of JSON, with a level for each module.
//!
//! Modules are the targets of events: `server`, `store` (the engine behind the scenes), `http` (requests),
//! `object_store` (requests to servers of S3 that are sent again), and the slow logs.
//! Not here: what is logged and when.

use model::{Error, ErrorKind, Result};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, Registry, reload};

/// The modules that a level may be given to.
const MODULES: [&str; 6] = [
    "server",
    "store",
    "http",
    "object_store",
    "index.search.slowlog",
    "index.indexing.slowlog",
];

/// The levels by their words, `off` the least.
const LEVELS: [(&str, LevelFilter); 6] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// The setting of the levels.
pub(crate) const LEVEL: &str = "log.level";
/// The setting of the form.
pub(crate) const FORMAT: &str = "log.format";

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

impl Format {
    /// # Errors
    /// Another word than `text` or `json`.
    pub(crate) fn parse(text: &str) -> Result<Format> {
        match text {
            "text" => Ok(Format::Text),
            "json" => Ok(Format::Json),
            other => {
                let hint = model::nearest::question(other, ["text", "json"]);
                Err(Error::illegal(format!(
                    "[{FORMAT}] is [{other}]: must be one of [text, json]{hint}"
                )))
            }
        }
    }
}

/// Reads `LEVEL` and `MODULE=LEVEL`, separated by commas. Slow logs are `trace` unless they are named: their thresholds
/// decide.
///
/// # Errors
/// A level or a module that there is not, with the nearest that is.
pub(crate) fn parse_levels(text: &str) -> Result<Targets> {
    let mut targets = Targets::new().with_default(LevelFilter::INFO);
    for module in MODULES.iter().filter(|module| module.ends_with("slowlog")) {
        targets = targets.with_target(*module, LevelFilter::TRACE);
    }
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        targets = match part.split_once('=') {
            None => targets.with_default(level(part)?),
            Some((module, word)) => {
                let known = MODULES.iter().find(|known| **known == module.trim());
                let Some(known) = known else {
                    let hint = model::nearest::question(module, MODULES);
                    return Err(Error::illegal(format!(
                        "[{LEVEL}] has the module [{module}]: must be one of [{}]{hint}",
                        MODULES.join(", ")
                    )));
                };
                targets.with_target(*known, level(word.trim())?)
            }
        };
    }
    Ok(targets)
}

fn level(word: &str) -> Result<LevelFilter> {
    let known = LEVELS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word));
    known.map(|(_, level)| *level).ok_or_else(|| {
        let words = LEVELS.map(|(word, _)| word);
        let hint = model::nearest::question(word, words);
        Error::illegal(format!(
            "[{LEVEL}] has the level [{word}]: must be one of [{}]{hint}",
            words.join(", ")
        ))
    })
}

/// The logs of this process; their levels can be changed.
#[derive(Clone, Debug)]
pub(crate) struct Logs {
    levels: reload::Handle<Targets, Registry>,
}

impl Logs {
    /// Begins to log. Once a process.
    ///
    /// # Errors
    /// Something else logs already.
    pub(crate) fn begin(levels: Targets, format: Format) -> Result<Logs> {
        let (filter, handle) = reload::Layer::new(levels);
        let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
        let lines = match format {
            Format::Text => lines.boxed(),
            Format::Json => lines.json().flatten_event(true).boxed(),
        };
        let begun = tracing_subscriber::registry().with(filter).with(lines).try_init();
        begun.map_err(|cause| Error::new(ErrorKind::Internal, format!("starting the log failed: {cause}")))?;
        Ok(Logs { levels: handle })
    }

    /// Logs by other levels from here on.
    ///
    /// # Errors
    /// The log has ended.
    pub(crate) fn set_levels(&self, levels: Targets) -> Result<()> {
        let done = self.levels.reload(levels);
        done.map_err(|cause| Error::new(ErrorKind::Internal, format!("changing the levels of the log failed: {cause}")))
    }
}

/// Logs of commands that people run: warnings as sentences.
pub(crate) fn begin_for_people() {
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .without_time()
        .with_target(false);
    let levels = Targets::new().with_default(LevelFilter::WARN);
    // Where something logs already, it has what this would say.
    let _ = tracing_subscriber::registry().with(levels).with(lines).try_init();
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    fn check(text: &str, expected: &[(&str, Level, bool)]) {
        let levels = parse_levels(text).expect("the levels can be read");
        for (module, level, logged) in expected {
            assert_eq!(levels.would_enable(module, level), *logged, "{module} {level} by [{text}]");
        }
    }

    fn check_refused(text: &str, part: &str) {
        let refused = parse_levels(text).expect_err("it is refused");
        assert!(refused.reason().contains(part), "{}", refused.reason());
    }

    #[test]
    fn levels() {
        check("", &[("server", Level::INFO, true), ("http", Level::DEBUG, false)]);
        check(
            "warn,http=debug",
            &[("server", Level::INFO, false), ("http", Level::DEBUG, true)],
        );
        check(
            "off",
            &[
                ("server", Level::ERROR, false),
                ("index.search.slowlog.query", Level::TRACE, true),
            ],
        );
        check(
            "INFO, index.search.slowlog = off",
            &[
                ("index.search.slowlog.query", Level::WARN, false),
                ("index.indexing.slowlog.index", Level::TRACE, true),
            ],
        );
    }

    #[test]
    fn refusals() {
        check_refused("loud", "must be one of [off, error, warn, info, debug, trace]");
        check_refused("inf", "did you mean [info]?");
        check_refused("htp=debug", "did you mean [http]?");
        check_refused("http=", "has the level []");
        assert!(
            Format::parse("jsno")
                .expect_err("refused")
                .reason()
                .contains("did you mean [json]?")
        );
    }
}
