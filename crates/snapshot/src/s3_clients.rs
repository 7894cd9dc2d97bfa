//! The clients of S3 that a process has, and the repositories that they open.
//!
//! Not here: their settings (`s3_client`), requests (`s3`).

use crate::repository::Repository;
#[cfg(feature = "s3")]
use crate::s3::{Bucket, Network, Trust};
use crate::s3_client::S3Client;
use crate::s3_place::S3Place;
use model::{Error, ErrorKind, Result};
#[cfg(feature = "s3")]
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
#[cfg(feature = "s3")]
use std::sync::Arc;

/// Clients by their names, and what repositories may say beside them.
pub struct S3Clients {
    clients: BTreeMap<String, S3Client>,
    allows_endpoint: bool,
    #[cfg(feature = "s3")]
    trust: Trust,
    /// Started with the first repository.
    #[cfg(feature = "s3")]
    network: Mutex<Option<Arc<Network>>>,
}

impl Default for S3Clients {
    fn default() -> S3Clients {
        S3Clients::new(BTreeMap::new(), false)
    }
}

impl fmt::Debug for S3Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.clients).finish()
    }
}

impl S3Clients {
    /// `allows_endpoint`: repositories may name servers.
    pub fn new(clients: BTreeMap<String, S3Client>, allows_endpoint: bool) -> S3Clients {
        S3Clients {
            clients,
            allows_endpoint,
            #[cfg(feature = "s3")]
            trust: || Err(Error::illegal("no authorities of certificates are known")),
            #[cfg(feature = "s3")]
            network: Mutex::default(),
        }
    }

    /// With authorities for https.
    #[cfg(feature = "s3")]
    #[must_use]
    pub fn trusting(self, trust: Trust) -> S3Clients {
        S3Clients { trust, ..self }
    }

    /// A repository by its settings. Nothing is asked for yet.
    ///
    /// # Errors
    /// Repository: a setting that is not allowed, or a program without S3.
    pub fn repository<'a>(&self, name: &str, text: impl Fn(&str) -> Option<&'a str>, description_max: u64) -> Result<Repository> {
        let place = S3Place::parse(name, text, &self.clients, self.allows_endpoint)?;
        self.open(name, &place, description_max)
    }

    /// Ends every request: the server is stopping.
    pub fn stop(&self) {
        #[cfg(feature = "s3")]
        if let Some(network) = &*self.network.lock() {
            network.stop();
        }
    }

    #[cfg(feature = "s3")]
    fn open(&self, name: &str, place: &S3Place, description_max: u64) -> Result<Repository> {
        let network = {
            let mut known = self.network.lock();
            match &*known {
                Some(network) => network.clone(),
                None => known.insert(Arc::new(Network::start(self.trust)?)).clone(),
            }
        };
        let bucket = Bucket::open(place, network);
        let bucket = bucket.map_err(|e| Error::new(ErrorKind::Repository, format!("[{name}] {}", e.reason())).status_of(400))?;
        Ok(Repository::of(Arc::new(bucket), description_max))
    }

    #[cfg(not(feature = "s3"))]
    fn open(&self, name: &str, _: &S3Place, _: u64) -> Result<Repository> {
        let reason = format!("[{name}] repository type [s3] is not in this program: it was built without the feature `s3`");
        Err(Error::new(ErrorKind::Repository, reason).status_of(400))
    }
}
