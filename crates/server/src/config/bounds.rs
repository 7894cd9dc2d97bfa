//! Bounds out of the configuration: of requests, of the node, of the engine.
//!
//! Not here: the rows of settings (`model::settings`).

use super::names::{PATH_REPO, node_settings};
use super::s3;
use super::values::{Values, parse_size};
use model::{Error, Result, settings, units};
use snapshot::{ALLOW_ENDPOINT, S3Clients};
use std::path::PathBuf;
use std::sync::Arc;

/// How deep bodies, queries and aggregations may nest.
pub(super) fn depths(values: &Values) -> Result<model::Depths> {
    let depth = |setting: settings::Setting, most: u16| {
        let given = values.text(setting.name);
        match given.parse::<u16>() {
            Ok(depth) if (1..=most).contains(&depth) => Ok(depth),
            _ => Err(Error::illegal(format!(
                "[{}] is [{given}] but must be between 1 and {most}",
                setting.name
            ))),
        }
    };
    Ok(model::Depths {
        json: depth(settings::JSON_MAX_DEPTH, model::Depths::JSON_MOST)?,
        queries: depth(settings::QUERY_MAX_DEPTH, 1000)?,
        aggs: depth(settings::MAX_AGG_DEPTH, 1000)?,
    })
}

/// The settings of the node that are numbers, sizes in bytes or durations in nanoseconds.
pub(super) fn node_limits(values: &Values) -> Result<Vec<(settings::Setting, u64)>> {
    let mut out = Vec::new();
    for setting in node_settings() {
        let text = values.text(setting.name);
        if settings::is_duration(setting) {
            let duration = units::parse_duration(&text, setting.name)?;
            // Who looks keeps a thread that others may need.
            if setting.name == settings::HTTP_BUSY_POLL.name && duration > settings::BUSY_POLL_MOST {
                let most = units::render_duration(settings::BUSY_POLL_MOST);
                return Err(Error::illegal(format!(
                    "[{}] is [{text}] but must be at most [{most}]",
                    setting.name
                )));
            }
            let ticks = settings::PREEMPTION_TICKS;
            if setting.name == settings::PREEMPTION_TICK.name && !duration.is_zero() && !ticks.contains(&duration) {
                let [least, most] = [ticks.start(), ticks.end()].map(|bound| units::render_duration(*bound));
                return Err(Error::illegal(format!(
                    "[{}] is [{text}] but must be [0] or between [{least}] and [{most}]",
                    setting.name
                )));
            }
            let nanos = duration.as_nanos();
            out.push((setting, u64::try_from(nanos).unwrap_or(u64::MAX)));
            continue;
        }
        // Settings that are neither numbers nor sizes are read by their own parsers.
        let size = || parse_size(setting.name, &text).ok().map(|bytes| bytes as u64);
        out.extend(text.parse().ok().or_else(size).map(|value| (setting, value)));
    }
    Ok(out)
}

/// The bounds of the engine.
pub(super) fn engine_limits(values: &Values) -> Result<embedded::Limits> {
    let searches = values
        .text(settings::MAX_CONCURRENT_SEARCHES.name)
        .parse::<usize>()
        .unwrap_or(1);
    let checkpoint_ops = values.text(settings::LOG_CHECKPOINT_OPS.name).parse::<u64>().unwrap_or(1);
    Ok(embedded::Limits {
        pending_bytes: values.bytes(settings::PENDING)? as u64,
        checkpoint_bytes: values.bytes(settings::LOG_CHECKPOINT)? as u64,
        queue_bytes: values.bytes(settings::LOG_QUEUE)? as u64,
        concurrent_searches: searches.max(1),
        checkpoint_ops: checkpoint_ops.max(1),
        log_max_bytes: values.bytes(settings::LOG_MAX)? as u64,
        ram_segment_bytes: values.bytes(settings::RAM_SEGMENTS)? as u64,
        answers_bytes: values.bytes(settings::REQUESTS_CACHE)?,
        documents_bytes: values.bytes(settings::DOCUMENTS_CACHE)?,
        filters_bytes: values.bytes(settings::QUERIES_CACHE)?,
        derived_bytes: values.bytes(settings::FIELDDATA_CACHE)?,
        retention: embedded::Retention {
            bytes: values.bytes(settings::CHANGES_RETENTION_BYTES)? as u64,
            age: units::parse_duration(
                &values.text(settings::CHANGES_RETENTION_AGE.name),
                settings::CHANGES_RETENTION_AGE.name,
            )?,
            unread_bytes: values.bytes(settings::CONSUMERS_MAX_BYTES)? as u64,
        },
        repository_paths: repository_paths(&values.text(PATH_REPO))?,
        s3_clients: s3_clients(values)?,
        ..embedded::Limits::default()
    })
}

/// The clients of S3, and whether repositories may name servers themselves.
fn s3_clients(values: &Values) -> Result<Arc<S3Clients>> {
    let given = values.of_clients();
    let given = given.filter_map(|(name, given)| Some((name.to_string(), given.values.last()?.clone())));
    s3::clients(&given.collect(), values.flag(ALLOW_ENDPOINT)?)
}

/// The folders of `path.repo`, each whole: a process that changes its folder finds them all the same.
fn repository_paths(list: &str) -> Result<Vec<PathBuf>> {
    let given = list.split(',').map(str::trim).filter(|path| !path.is_empty());
    let whole = |path: &str| {
        std::path::absolute(path)
            .map_err(|cause| Error::illegal(format!("[{PATH_REPO}] has [{path}], which is no path: {cause}")))
    };
    given.map(whole).collect()
}
