//! How often the bearer of a token may ask.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Requests by account, which is a token's name or whom an issuer calls so: each has a bucket that fills evenly, and a request takes one drop of it.
#[derive(Debug)]
pub(crate) struct Rates {
    per_minute: u32,
    buckets: Mutex<HashMap<String, Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    drops: f64,
    filled: Instant,
}

impl Rates {
    pub(crate) fn new(per_minute: u32) -> Self {
        Self {
            per_minute: per_minute.max(1),
            buckets: Mutex::default(),
        }
    }

    /// Takes a request of this account.
    ///
    /// # Errors
    /// With the time until there is room for another one.
    pub(crate) fn take(&self, account: &str, now: Instant) -> Result<(), Duration> {
        let most = f64::from(self.per_minute);
        let per_second = most / 60.0;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        // A full bucket says no more than none: tokens that are gone leave nothing.
        buckets.retain(|name, bucket| {
            let gone = now.saturating_duration_since(bucket.filled).as_secs_f64();
            name == account || bucket.drops + gone * per_second < most
        });
        let bucket = buckets.entry(account.to_owned()).or_insert(Bucket {
            drops: most,
            filled: now,
        });
        let gone = now.saturating_duration_since(bucket.filled).as_secs_f64();
        bucket.drops = (bucket.drops + gone * per_second).min(most);
        bucket.filled = now;
        if bucket.drops < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.drops) / per_second));
        }
        bucket.drops -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_empties_and_fills_again() {
        let rates = Rates::new(60);
        let (one, other) = ("one", "two");
        let start = Instant::now();
        for _ in 0..60 {
            rates.take(one, start).unwrap();
        }
        let wait = rates.take(one, start).unwrap_err();
        assert!(wait <= Duration::from_secs(1) && wait > Duration::from_millis(900));
        rates.take(other, start).unwrap();
        rates.take(one, start + Duration::from_secs(2)).unwrap();
        let later = start + Duration::from_secs(600);
        rates.take(other, later).unwrap();
        assert_eq!(rates.buckets.lock().unwrap().len(), 1);
    }
}
