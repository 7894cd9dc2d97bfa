//! Disk watermarks: how much of a disk may be used before somebody is warned, and before indices refuse writes.
//!
//! A watermark is a share that may be used (`85%`, `0.85`), bounded by a headroom, or the bytes that have to stay free
//! (`10gb`). Not here: measuring a disk (the engine), setting blocks (`rest`).

use crate::settings::{
    self, DISK_FLOOD, DISK_FLOOD_HEADROOM, DISK_HIGH, DISK_HIGH_HEADROOM, DISK_LOW, DISK_LOW_HEADROOM, DISK_THRESHOLD_ENABLED,
    DISK_UPDATE_INTERVAL, Setting,
};
use crate::units::{parse_bytes, parse_duration};
use crate::{Error, Result};
use serde_json::{Map, Value};
use std::time::Duration;

/// The settings that are read here.
pub const SETTINGS: [Setting; 8] = [
    DISK_THRESHOLD_ENABLED,
    DISK_LOW,
    DISK_LOW_HEADROOM,
    DISK_HIGH,
    DISK_HIGH_HEADROOM,
    DISK_FLOOD,
    DISK_FLOOD_HEADROOM,
    DISK_UPDATE_INTERVAL,
];

/// The least that the interval may be, as in the reference.
const INTERVAL_LEAST: Duration = Duration::from_secs(10);

/// From where the server can be reached. As the reference's checks at a start do, watermarks tell machines of developers from
/// others: there the disk is full of other things, and little is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// From other machines.
    #[default]
    Network,
    /// From its own machine alone.
    Machine,
}

impl Reach {
    /// The value of a setting that is not given.
    pub fn default_of(self, setting: Setting) -> &'static str {
        match (self, setting) {
            (Reach::Machine, DISK_LOW_HEADROOM) => "4gb",
            (Reach::Machine, DISK_HIGH_HEADROOM) => "2gb",
            (Reach::Machine, DISK_FLOOD_HEADROOM) => "1gb",
            _ => setting.default,
        }
    }
}

/// One watermark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Watermark {
    /// So much of the disk may be used, from 0 to 1; no more than the headroom has to stay free.
    Used { ratio: f64, headroom: Option<u64> },
    /// So many bytes have to stay free.
    Free(u64),
}

impl Watermark {
    /// Reads `85%`, `0.85` or `10gb`.
    ///
    /// # Errors
    /// It is none of these, or a share beyond the whole.
    fn parse(text: &str, setting: Setting) -> Result<Watermark> {
        let name = setting.name;
        let text = text.trim();
        let share = match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().ok().map(|percent| percent / 100.0),
            None => text.parse::<f64>().ok(),
        };
        match share {
            Some(ratio) if (0.0..=1.0).contains(&ratio) => Ok(Watermark::Used { ratio, headroom: None }),
            Some(_) => Err(Error::illegal(format!(
                "[{name}] is [{text}]: a percentage is between 0% and 100%, a ratio between 0 and 1"
            ))),
            None => parse_bytes(text, name).map(Watermark::Free).map_err(|_| {
                Error::illegal(format!(
                    "failed to parse [{name}] with value [{text}]: must be a percentage of used space (85%), a ratio (0.85) or free bytes (10gb)"
                ))
            }),
        }
    }

    /// The bytes that have to stay free of a disk of this size.
    pub fn least_free(self, total: u64) -> u64 {
        match self {
            Watermark::Free(bytes) => bytes,
            Watermark::Used { ratio, headroom } => {
                // Beyond 2^53 bytes a disk loses single bytes here, which no decision notices.
                let free = ((1.0 - ratio) * total as f64).round() as u64;
                headroom.map_or(free, |headroom| free.min(headroom))
            }
        }
    }
}

/// The watermark that a disk exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// None, or nothing is known of the disk.
    Roomy,
    Low,
    High,
    FloodStage,
}

/// The change that the blocks of indices need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Every index is to have the block.
    Block,
    /// Blocks stay as they are.
    Keep,
    /// No index is to have it.
    Release,
}

impl Stage {
    /// At flood stage indices are blocked; they stay so until there is more room than the high watermark asks for.
    pub fn step(self) -> Step {
        match self {
            Stage::FloodStage => Step::Block,
            Stage::High => Step::Keep,
            Stage::Low | Stage::Roomy => Step::Release,
        }
    }
}

/// All watermarks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watermarks {
    /// `false`: no disk exceeds one.
    pub enabled: bool,
    pub low: Watermark,
    pub high: Watermark,
    pub flood_stage: Watermark,
    /// How often the disk is looked at.
    pub interval: Duration,
}

impl Watermarks {
    /// From settings of the cluster; each that is missing has its default.
    ///
    /// # Errors
    /// A value that cannot be read; watermarks out of order, or in shares here and in bytes there.
    pub fn of(settings: &Map<String, Value>, reach: Reach) -> Result<Watermarks> {
        let marks = Watermarks {
            enabled: flag(settings)?,
            low: watermark(settings, reach, DISK_LOW, DISK_LOW_HEADROOM)?,
            high: watermark(settings, reach, DISK_HIGH, DISK_HIGH_HEADROOM)?,
            flood_stage: watermark(settings, reach, DISK_FLOOD, DISK_FLOOD_HEADROOM)?,
            interval: interval(settings)?,
        };
        let text = |setting| text(settings, reach, setting);
        let unordered = |lower: Setting, upper: Setting, word: &str| {
            Err(Error::illegal(format!(
                "[{}] of [{}] is {word} than [{}] of [{}]",
                lower.name,
                text(lower),
                upper.name,
                text(upper)
            )))
        };
        let pairs = [
            (
                marks.low,
                marks.high,
                [DISK_LOW, DISK_HIGH],
                [DISK_LOW_HEADROOM, DISK_HIGH_HEADROOM],
            ),
            (
                marks.high,
                marks.flood_stage,
                [DISK_HIGH, DISK_FLOOD],
                [DISK_HIGH_HEADROOM, DISK_FLOOD_HEADROOM],
            ),
        ];
        for (lower, upper, [lower_name, upper_name], [lower_headroom, upper_headroom]) in pairs {
            match (lower, upper) {
                (Watermark::Free(lower), Watermark::Free(upper)) if lower < upper => {
                    return unordered(lower_name, upper_name, "less");
                }
                (Watermark::Used { ratio: lower, .. }, Watermark::Used { ratio: upper, .. }) if lower > upper => {
                    return unordered(lower_name, upper_name, "more");
                }
                (
                    Watermark::Used {
                        headroom: Some(lower), ..
                    },
                    Watermark::Used {
                        headroom: Some(upper), ..
                    },
                ) if lower < upper => {
                    return unordered(lower_headroom, upper_headroom, "less");
                }
                (Watermark::Free(_), Watermark::Free(_)) | (Watermark::Used { .. }, Watermark::Used { .. }) => {}
                _ => {
                    return Err(Error::illegal(format!(
                        "unable to consistently parse [{}={}], [{}={}], and [{}={}] as percentage or bytes",
                        DISK_LOW.name,
                        text(DISK_LOW),
                        DISK_HIGH.name,
                        text(DISK_HIGH),
                        DISK_FLOOD.name,
                        text(DISK_FLOOD)
                    )));
                }
            }
        }
        Ok(marks)
    }

    /// The watermark that a disk of `total` bytes with `available` bytes left exceeds. 0 of 0: nothing is known of it.
    pub fn stage(&self, total: u64, available: u64) -> Stage {
        if !self.enabled || total == 0 {
            return Stage::Roomy;
        }
        let exceeds = |mark: Watermark| available < mark.least_free(total);
        match () {
            () if exceeds(self.flood_stage) => Stage::FloodStage,
            () if exceeds(self.high) => Stage::High,
            () if exceeds(self.low) => Stage::Low,
            () => Stage::Roomy,
        }
    }
}

/// Checks the value of one setting by itself. `None`: it is none of [`SETTINGS`].
pub fn check(name: &str, text: &str) -> Option<Result<()>> {
    let setting = *SETTINGS.iter().find(|setting| setting.name == name)?;
    let alone: Map<String, Value> = [(name.to_owned(), Value::from(text))].into_iter().collect();
    Some(match setting {
        DISK_THRESHOLD_ENABLED => flag(&alone).map(drop),
        DISK_UPDATE_INTERVAL => interval(&alone).map(drop),
        DISK_LOW | DISK_HIGH | DISK_FLOOD => Watermark::parse(text, setting).map(drop),
        _ => headroom(text, setting).map(drop),
    })
}

fn flag(settings: &Map<String, Value>) -> Result<bool> {
    let (name, text) = (DISK_THRESHOLD_ENABLED.name, settings::text(settings, DISK_THRESHOLD_ENABLED));
    text.parse().map_err(|_| {
        Error::illegal(format!(
            "Failed to parse value [{text}] as only [true] or [false] are allowed for setting [{name}]"
        ))
    })
}

fn interval(settings: &Map<String, Value>) -> Result<Duration> {
    let (name, text) = (DISK_UPDATE_INTERVAL.name, settings::text(settings, DISK_UPDATE_INTERVAL));
    let interval = parse_duration(&text, name)?;
    if interval < INTERVAL_LEAST {
        let reason = format!("failed to parse value [{text}] for setting [{name}], must be >= [10s]");
        return Err(Error::illegal(reason));
    }
    Ok(interval)
}

/// The bytes of a headroom; `-1`: none.
fn headroom(text: &str, setting: Setting) -> Result<Option<u64>> {
    match text.trim() {
        "-1" => Ok(None),
        text => parse_bytes(text, setting.name).map(Some),
    }
}

fn text(settings: &Map<String, Value>, reach: Reach, setting: Setting) -> String {
    let default = reach.default_of(setting);
    settings::text(settings, Setting { default, ..setting })
}

/// A watermark with its headroom. As in the reference, a share that is given has no headroom unless that is given too.
fn watermark(settings: &Map<String, Value>, reach: Reach, mark: Setting, room: Setting) -> Result<Watermark> {
    let parsed = Watermark::parse(&settings::text(settings, mark), mark)?;
    let given = settings.get(room.name).is_some_and(|value| !value.is_null());
    match parsed {
        Watermark::Used { ratio, .. } => {
            let bounded = given || settings.get(mark.name).is_none_or(Value::is_null);
            let headroom = if bounded {
                headroom(&text(settings, reach, room), room)?
            } else {
                None
            };
            Ok(Watermark::Used { ratio, headroom })
        }
        Watermark::Free(_) if given && headroom(&text(settings, reach, room), room)?.is_some() => {
            let (name, text) = (mark.name, settings::text(settings, mark));
            Err(Error::illegal(format!(
                "[{}] bounds a share of the disk, but [{name}] is [{text}] in bytes",
                room.name
            )))
        }
        Watermark::Free(_) => Ok(parsed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const GB: u64 = 1 << 30;
    const BASE: &str = "cluster.routing.allocation.disk.";

    fn of(given: &Value) -> Result<Watermarks> {
        let short = given.as_object().expect("an object");
        let settings = short.iter().map(|(name, value)| (format!("{BASE}{name}"), value.clone()));
        Watermarks::of(&settings.collect(), Reach::Network)
    }

    #[test]
    fn a_server_of_its_own_machine_alone_leaves_less() {
        let local = Watermarks::of(&Map::new(), Reach::Machine).unwrap();
        for (total, available, expected) in [
            (270, 10, Stage::Roomy),
            (270, 3, Stage::Low),
            (270, 1, Stage::High),
            (270, 0, Stage::FloodStage),
            (10, 1, Stage::Low),
        ] {
            assert_eq!(local.stage(total * GB, available * GB), expected, "{available} of {total}");
        }
        // A headroom that is given does not depend on the reach.
        for given in [
            json!({ "watermark.flood_stage": "95%" }),
            json!({ "watermark.flood_stage.max_headroom": "100gb", "watermark.high.max_headroom": "150gb", "watermark.low.max_headroom": "200gb" }),
        ] {
            let named = given.as_object().unwrap().iter();
            let settings = named.map(|(name, value)| (format!("{BASE}{name}"), value.clone())).collect();
            let stage = Watermarks::of(&settings, Reach::Machine).unwrap().stage(270 * GB, 10 * GB);
            assert_eq!(stage, Stage::FloodStage, "{given}");
        }
    }

    #[test]
    fn stages() {
        let check = |given: Value, total: u64, available: u64, expected: Stage| {
            let marks = of(&given).unwrap();
            assert_eq!(marks.stage(total, available), expected, "{available} of {total} with {given}");
        };
        let none = || json!({});
        check(none(), 0, 0, Stage::Roomy);
        check(none(), 100 * GB, 15 * GB, Stage::Roomy);
        check(none(), 100 * GB, 15 * GB - 1, Stage::Low);
        check(none(), 100 * GB, 10 * GB - 1, Stage::High);
        check(none(), 100 * GB, 5 * GB - 1, Stage::FloodStage);
        // A large disk is bounded by the headrooms of 200, 150 and 100 GB.
        check(none(), 4096 * GB, 200 * GB, Stage::Roomy);
        check(none(), 4096 * GB, 164 * GB, Stage::Low);
        check(none(), 4096 * GB, 100 * GB, Stage::High);
        check(none(), 4096 * GB, 100 * GB - 1, Stage::FloodStage);
        // A share that is given has no headroom of its own.
        check(
            json!({ "watermark.flood_stage": "95%" }),
            4096 * GB,
            200 * GB,
            Stage::FloodStage,
        );
        check(
            json!({ "watermark.flood_stage": "0.95", "watermark.flood_stage.max_headroom": "10gb" }),
            4096 * GB,
            11 * GB,
            Stage::High,
        );
        check(
            json!({ "watermark.flood_stage.max_headroom": "-1" }),
            4096 * GB,
            200 * GB,
            Stage::FloodStage,
        );
        let bytes = json!({ "watermark.low": "3gb", "watermark.high": "2gb", "watermark.flood_stage": "1gb" });
        for (available, expected) in [(3, Stage::Roomy), (2, Stage::Low), (1, Stage::High), (0, Stage::FloodStage)] {
            check(bytes.clone(), 100 * GB, available * GB, expected);
        }
        check(json!({ "threshold_enabled": false }), 100 * GB, 0, Stage::Roomy);
        check(json!({ "threshold_enabled": "false" }), 100 * GB, 0, Stage::Roomy);
    }

    #[test]
    fn blocks_come_at_flood_stage_and_go_below_high() {
        let steps = [Stage::Roomy, Stage::Low, Stage::High, Stage::FloodStage].map(Stage::step);
        assert_eq!(steps, [Step::Release, Step::Release, Step::Keep, Step::Block]);
    }

    #[test]
    fn refusals() {
        let check = |given: Value, part: &str| {
            let error = of(&given).expect_err("refused");
            assert!(error.status() == 400 && error.reason().contains(part), "{given}: {error}");
        };
        check(
            json!({ "watermark.low": "101%" }),
            "[cluster.routing.allocation.disk.watermark.low] is [101%]",
        );
        check(json!({ "watermark.low": "much" }), "must be a percentage of used space");
        check(json!({ "watermark.low": "91%" }), "watermark.low] of [91%] is more than");
        check(
            json!({ "watermark.flood_stage": "80%" }),
            "watermark.high] of [90%] is more than",
        );
        check(json!({ "watermark.flood_stage": "1gb" }), "unable to consistently parse");
        check(
            json!({ "watermark.low": "1gb", "watermark.high": "2gb", "watermark.flood_stage": "1gb" }),
            "watermark.low] of [1gb] is less than",
        );
        check(
            json!({ "watermark.low": "3gb", "watermark.high": "2gb", "watermark.flood_stage": "1gb", "watermark.low.max_headroom": "1gb" }),
            "bounds a share of the disk",
        );
        check(
            json!({ "watermark.low.max_headroom": "1gb" }),
            "low.max_headroom] of [1gb] is less than",
        );
        check(json!({ "threshold_enabled": "maybe" }), "threshold_enabled");
        let interval = Watermarks::of(
            json!({ "cluster.info.update.interval": "5s" }).as_object().unwrap(),
            Reach::Network,
        );
        assert!(interval.unwrap_err().reason().contains("must be >= [10s]"));
    }
}
