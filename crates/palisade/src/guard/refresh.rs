//! Other policies, or another schema, while requests run.

use std::sync::Arc;

use crate::{
    error::Error,
    firewall::Firewall,
    guard::{
        Guard, backend::Backend, backend_error::BackendError, backend_error::BackendErrorKind,
        live::Live,
    },
    limits::Limits,
    policy::PolicySources,
    rejection::Rejection,
};

/// Why a gate goes on with what it had.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RefreshError {
    /// The database does not tell its schema.
    #[error("cannot read the schema: {0}")]
    Database(#[from] BackendError),
    /// The policies do not fit the schema as it is now.
    #[error(transparent)]
    Firewall(#[from] Error),
}

impl Guard {
    /// Decides by `policies` from the next request on; those that run end under the policies they began
    /// with. If something is wrong with them, those in force stay.
    ///
    /// They are read over the schema that is known. Where they do not fit it, they are read over the schema as it is now, if the
    /// database tells that: to look at a large schema takes longer than to read policies.
    ///
    /// # Errors
    /// [`Error::Policies`] with every problem and its line.
    pub async fn reload(&self, policies: &PolicySources) -> Result<Arc<Firewall>, Error> {
        loop {
            let seen = self.current.get();
            let known = seen.backend.catalog().clone();
            let (firewall, backend) = match seen.firewall.renewed(known, policies.clone()) {
                Ok(firewall) => (firewall, Arc::clone(&seen.backend)),
                Err(misfit) => {
                    let Ok(Some(backend)) = look_for_change(&seen).await else {
                        return Err(misfit);
                    };
                    let now = backend.catalog().clone();
                    (seen.firewall.renewed(now, policies.clone())?, backend)
                }
            };
            let is_same = firewall.policies().version() == seen.firewall.policies().version()
                && firewall.sources().origin == seen.firewall.sources().origin;
            if is_same {
                return Ok(Arc::clone(&seen.firewall));
            }
            let firewall = Arc::new(firewall);
            let next = Live {
                firewall: Arc::clone(&firewall),
                backend,
            };
            if self.current.replace(&seen, next) {
                return Ok(firewall);
            }
        }
    }

    /// Decides within `limits` from the next request on; those that run keep the limits they began with.
    ///
    /// # Errors
    /// As [`reload`](Self::reload): the policies are read again, and those in force stay.
    pub fn reload_limits(&self, limits: &Limits) -> Result<(), Error> {
        loop {
            let seen = self.current.get();
            if seen.firewall.limits() == limits {
                return Ok(());
            }
            let firewall = Arc::new(seen.firewall.limited(limits.clone())?);
            let backend = Arc::clone(&seen.backend);
            if self.current.replace(&seen, Live { firewall, backend }) {
                return Ok(());
            }
        }
    }

    /// Looks whether the database's schema is another than statements are decided over, and if so decides
    /// over the new one, by the same policies, from the next request on. Says whether it was.
    ///
    /// # Errors
    /// If the schema cannot be read or the policies do not fit it; statements that read what changed stay
    /// refused then.
    pub async fn refresh(&self) -> Result<bool, RefreshError> {
        self.renew(true).await
    }

    /// As [`refresh_if_due`](Self::refresh_if_due), after the database has said that its schema is another than
    /// was decided over. What it holds is read then without the question whether it is current: a catalog that was read
    /// while a view became another and the first again would be taken for current for ever.
    pub(in crate::guard) async fn reread_if_due(&self) -> Result<bool, RefreshError> {
        if self.current.is_due(self.host.monotonic()) {
            self.renew(false).await
        } else {
            Ok(false)
        }
    }

    /// Whether the schema is another than `decided` is of, as a look at it confirms, after the database has said that it has not what a
    /// statement names. Decides over the new one from the next request on.
    async fn confirm_change(&self, decided: &Arc<Live<dyn Backend>>) -> bool {
        if let Ok(true) = self.refresh_if_due().await {
            return true;
        }
        // Another request has looked a moment ago, or is looking.
        let version = |live: &Live<dyn Backend>| live.backend.catalog().version().to_owned();
        version(&self.current.get()) != version(decided)
            || matches!(decided.backend.is_current().await, Ok(false))
    }

    /// `error`, or that the schema has changed: where the database has not what a statement names, only what a look at the schema
    /// confirms is called a change. To send another statement again would not help.
    pub(in crate::guard) async fn confirm_missing_name(
        &self,
        error: BackendError,
        decided: &Arc<Live<dyn Backend>>,
    ) -> BackendError {
        match error.kind == BackendErrorKind::NameNotFound {
            true if self.confirm_change(decided).await => {
                BackendError::schema_changed(error.detail)
            }
            true | false => error,
        }
    }

    /// `refused`, with how long it takes until the schema may be looked at again, where what was decided over is still what there is.
    pub(in crate::guard) fn wait_for_look(
        &self,
        refused: Rejection,
        decided: &Arc<Live<dyn Backend>>,
    ) -> Rejection {
        let wait = self.current.time_to_look(self.host.monotonic());
        match wait.is_zero() || !Arc::ptr_eq(&self.current.get(), decided) {
            true => refused,
            false => refused.with_retry_after(wait),
        }
    }

    async fn renew(&self, asks: bool) -> Result<bool, RefreshError> {
        loop {
            let seen = self.current.get();
            let backend = if asks {
                look_for_change(&seen).await?
            } else {
                seen.backend.refreshed().await?
            };
            let Some(backend) = backend else {
                self.current.note_misfit(None);
                return Ok(false);
            };
            let policies = seen.firewall.sources().clone();
            let firewall = seen
                .firewall
                .renewed(backend.catalog().clone(), policies)
                .inspect_err(|misfit| self.current.note_misfit(Some(misfit.to_string())))?;
            let next = Live {
                firewall: Arc::new(firewall),
                backend,
            };
            if self.current.replace(&seen, next) {
                return Ok(true);
            }
        }
    }

    /// As [`refresh`](Self::refresh), unless that was a moment ago: for requests, which may come as
    /// often as they like.
    ///
    /// # Errors
    /// As [`refresh`](Self::refresh).
    pub async fn refresh_if_due(&self) -> Result<bool, RefreshError> {
        if self.current.is_due(self.host.monotonic()) {
            self.refresh().await
        } else {
            Ok(false)
        }
    }
}

/// The database as it is now, if that is something else.
async fn look_for_change(
    seen: &Live<dyn Backend>,
) -> Result<Option<Arc<dyn Backend>>, BackendError> {
    if seen.backend.is_current().await? {
        return Ok(None);
    }
    seen.backend.refreshed().await
}
