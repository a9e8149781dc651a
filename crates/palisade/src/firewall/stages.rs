//! Single stages of a decision, for whoever asks what a statement touches or may touch. Neither leads to
//! anything that can be run.

use super::Firewall;
use crate::{
    access::AccessSet,
    policy::authorize,
    rejection::Rejection,
    resolve::{self, Mode},
    session::Session,
    syntax,
};

impl Firewall {
    /// Everything that `sql` would touch, by the names that exist for `session`. Nothing is permitted by
    /// this.
    ///
    /// # Errors
    /// Every refusal that comes before policies are asked about the whole.
    pub fn access(&self, sql: &str, session: &Session) -> Result<AccessSet, Rejection> {
        let sight = self.sight(session);
        syntax::parse(sql, self.catalog.dialect(), &self.limits, |parsed| {
            resolve::resolve(parsed, &self.catalog, &sight, Mode::Statement, &self.limits)
                .map(|resolved| resolved.access)
        })
    }

    /// Whether policies permit `session` everything in `access`, an access set of this firewall: the stage
    /// of authorisation alone. It says nothing of obligations.
    ///
    /// # Errors
    /// With the first refusal.
    pub fn authorize(&self, access: &AccessSet, session: &Session) -> Result<(), Rejection> {
        authorize(self.sight(session).view(), access).map(drop)
    }
}
