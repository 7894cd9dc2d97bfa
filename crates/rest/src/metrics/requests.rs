//! Requests by endpoint and status.

use engine::histogram::{Histogram, Observed};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Statuses that have a counter of their own; any other is counted as `other`.
const STATUSES: [(u16, &str); 20] = [
    (200, "200"),
    (201, "201"),
    (400, "400"),
    (401, "401"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (406, "406"),
    (408, "408"),
    (409, "409"),
    (411, "411"),
    (413, "413"),
    (415, "415"),
    (429, "429"),
    (499, "499"),
    (500, "500"),
    (501, "501"),
    (503, "503"),
    (504, "504"),
    (507, "507"),
];

const _: () = {
    let mut at = 1;
    while at < STATUSES.len() {
        assert!(
            STATUSES[at - 1].0 < STATUSES[at].0,
            "statuses are looked up by bisection, so they rise"
        );
        at += 1;
    }
};

/// The endpoint of requests that no row of the table answers: unknown paths, refusals before the path is looked at.
pub(crate) const UNROUTED: &str = "none";

/// Counters of one endpoint.
#[derive(Debug, Default)]
struct EndpointCounters {
    by_status: [AtomicU64; STATUSES.len() + 1],
    duration: Histogram,
}

/// Counters of every endpoint.
#[derive(Debug)]
pub(crate) struct Requests {
    /// Slots of `rows` by the name of the API.
    slots: HashMap<&'static str, usize>,
    rows: Box<[EndpointCounters]>,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
}

/// One request that is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestFigures {
    /// As `ENDPOINTS` names it; `None` if no row was found.
    pub(crate) api: Option<&'static str>,
    pub(crate) status: u16,
    /// From the end of its body to the begin of its answer.
    pub(crate) took: Duration,
    pub(crate) received_bytes: usize,
    pub(crate) sent_bytes: usize,
}

/// One endpoint with its figures.
#[derive(Debug)]
pub(crate) struct EndpointCounts {
    pub(crate) api: &'static str,
    /// Statuses that occurred.
    pub(crate) by_status: Vec<(&'static str, u64)>,
    pub(crate) duration: Observed,
}

impl Requests {
    /// Counters at zero. Rows of one API share their counters.
    pub(crate) fn new(apis: impl Iterator<Item = &'static str>) -> Requests {
        let mut slots = HashMap::new();
        for api in std::iter::once(UNROUTED).chain(apis) {
            let next = slots.len();
            slots.entry(api).or_insert(next);
        }
        Requests {
            rows: (0..slots.len()).map(|_| EndpointCounters::default()).collect(),
            slots,
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
        }
    }

    /// Counts one.
    pub(crate) fn record(&self, answered: RequestFigures) {
        let slot = self.slots.get(answered.api.unwrap_or(UNROUTED));
        debug_assert!(slot.is_some(), "{answered:?} is of no endpoint of the table");
        let Some(row) = slot.and_then(|slot| self.rows.get(*slot)) else {
            return;
        };
        let status = STATUSES.binary_search_by_key(&answered.status, |(status, _)| *status);
        row.by_status[status.unwrap_or(STATUSES.len())].fetch_add(1, Ordering::Relaxed);
        row.duration.record(answered.took);
        if answered.received_bytes > 0 {
            self.received_bytes
                .fetch_add(answered.received_bytes as u64, Ordering::Relaxed);
        }
        self.sent_bytes.fetch_add(answered.sent_bytes as u64, Ordering::Relaxed);
    }

    /// Endpoints that had requests, by name.
    pub(crate) fn counts(&self) -> Vec<EndpointCounts> {
        let counts = self.slots.iter().filter_map(|(api, slot)| {
            let row = self.rows.get(*slot)?;
            let words = STATUSES.iter().map(|(_, word)| *word).chain(["other"]);
            let counts = words.zip(&row.by_status);
            let counts = counts.map(|(word, count)| (word, count.load(Ordering::Relaxed)));
            let by_status: Vec<(&str, u64)> = counts.filter(|(_, count)| *count > 0).collect();
            (!by_status.is_empty()).then(|| EndpointCounts {
                api,
                by_status,
                duration: row.duration.observe(),
            })
        });
        let mut all: Vec<EndpointCounts> = counts.collect();
        all.sort_unstable_by_key(|row| row.api);
        debug_assert!(
            all.windows(2).all(|two| two[0].api < two[1].api),
            "each endpoint is told of once, though it may have several rows"
        );
        all
    }

    /// Bytes of request bodies, decompressed.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of answers before their compression.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_sorted() {
        assert!(STATUSES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(STATUSES.iter().all(|(status, word)| status.to_string() == *word));
    }

    #[test]
    fn requests_are_counted_by_endpoint_and_status() {
        let requests = Requests::new(["index", "search", "index"].into_iter());
        let answer = |api, status| {
            requests.record(RequestFigures {
                api,
                status,
                took: Duration::from_millis(1),
                received_bytes: 2,
                sent_bytes: 3,
            });
        };
        answer(Some("index"), 201);
        answer(Some("index"), 201);
        answer(Some("index"), 409);
        answer(Some("search"), 418);
        answer(None, 403);
        let counts: Vec<String> = requests
            .counts()
            .iter()
            .map(|row| format!("{} {:?} {}", row.api, row.by_status, row.duration.count()))
            .collect();
        let expected = [
            r#"index [("201", 2), ("409", 1)] 3"#,
            r#"none [("403", 1)] 1"#,
            r#"search [("other", 1)] 1"#,
        ];
        assert_eq!(counts, expected);
        assert_eq!((requests.received_bytes(), requests.sent_bytes()), (10, 15));
    }
}
