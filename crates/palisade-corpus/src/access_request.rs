//! What a refusal would take to be none: the least permits, and what else they would let be seen.

use std::{path::PathBuf, sync::Arc};

use palisade::{
    catalog::Catalog,
    firewall::{Decision, Firewall},
    policy::{PolicyFile, PolicySources, format_policies},
    rejection::Rejection,
    session::Session,
};
use serde::Serialize;

use crate::{
    diff::{self, PolicyChange},
    folder::PolicyTests,
    learn::{Grants, LearnError, ShownAs, Subject, resolve},
    load::OWN_POLICIES,
    lock::Lock,
    replay::AskedStatement,
    run::{RunError, Runner},
};

/// What is asked for, to be reviewed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AccessRequest {
    /// Who asked.
    pub principal: String,
    /// What, with stand-ins for literals that were not recorded.
    pub sql: String,
    /// The code of the refusal by today's policies.
    pub code: String,
    /// The policies that refuse it today.
    pub refused_by: Vec<String>,
    /// The least permits, in Cedar; empty where permits alone do not do.
    pub policies: String,
    /// Why permits alone do not do.
    pub obstacle: Option<String>,
    /// What the principal may do then that it may not today.
    pub changes: Vec<PolicyChange>,
    /// The lines that `access.lock` loses and gets by them, after `-` and `+`.
    pub lock: Vec<String>,
    /// A case that holds by them, in the format of tests.
    pub test: String,
}

impl PolicyTests {
    /// What `asked` would take to be permitted, over the catalog `catalog` of this folder's tests. None if it is permitted.
    ///
    /// # Errors
    /// If the folder does not load over the catalog.
    pub fn request_access(
        &self,
        catalog: &str,
        asked: &AskedStatement,
    ) -> Result<Option<AccessRequest>, LearnError> {
        let runner = Runner::over_catalogs(self.corpus(), OWN_POLICIES)?;
        let firewall = runner.firewall_over(catalog, OWN_POLICIES)?;
        let asked = AskedStatement {
            // It is a person who asks for it, whatever became of it.
            was_permitted: None,
            needed_approval: false,
            clean: 1,
            count: 1,
            ..asked.clone()
        };
        let open = runner.permit_everything_over(catalog, OWN_POLICIES);
        let resolved = match open {
            Some(open) => resolve(open, &asked),
            None => Err("policies that permit everything do not load over the tables".to_owned()),
        };
        let desk = Desk {
            firewall: &firewall,
            asked: &asked,
        };
        let (text, access) = match resolved {
            Ok(resolved) => resolved,
            Err(why) => {
                return Ok(match desk.refuse(&firewall, &asked.sql) {
                    None => None,
                    Some(rejection) => Some(desk.describe(&asked.sql, &rejection, Some(why))),
                });
            }
        };
        let Some(rejection) = desk.refuse(&firewall, &text) else {
            return Ok(None);
        };
        let mut grants = Grants::default();
        grants.add(&access, &asked, firewall.catalog());
        let mut pieces = desk.find_least(&text, &desk.list_pieces(&grants));
        if pieces.is_none() && desk.read_masked_instead(&text, &mut grants) {
            pieces = desk.find_least(&text, &desk.list_pieces(&grants));
        }
        let mut request = desk.describe(&text, &rejection, None);
        let Some(pieces) = pieces else {
            let with_all = desk.with(&desk.list_pieces(&grants));
            let left = with_all.and_then(|firewall| desk.refuse(&firewall, &text));
            request.obstacle = Some(match left {
                Some(left) => format!(
                    "it is refused under permits of all that it touches: {left}, by {}",
                    match left.policies() {
                        [] => "no policy".to_owned(),
                        policies => policies.join(", "),
                    }
                ),
                None => "the permits do not load beside the policies".to_owned(),
            });
            return Ok(Some(request));
        };
        let laid_out = format_policies(&PolicyFile {
            name: "requested.cedar".to_owned(),
            text: pieces.concat(),
        });
        request.policies = laid_out.map_err(LearnError::Layout)?;
        if let Some(after) = desk.with(&pieces) {
            let cells = |firewall: &Firewall| {
                diff::cells(firewall, &asked.principal).map_err(|source| RunError::Policies {
                    policies: OWN_POLICIES.to_owned(),
                    catalog: catalog.to_owned(),
                    source,
                })
            };
            request.changes =
                diff::compare_cells(&cells(&firewall)?, &cells(&after)?, &asked.principal);
            // That a column of a table that is there now is hidden is nothing to review.
            request.changes.retain(|change| change.direction.is_wider());
            request.changes.sort();
            let policies = runner.with_policies(OWN_POLICIES, after.sources());
            let policies = policies.map_err(|source| RunError::Policies {
                policies: OWN_POLICIES.to_owned(),
                catalog: catalog.to_owned(),
                source,
            })?;
            request.lock = Lock {
                path: PathBuf::new(),
                old: Some(self.lock_by(&runner)?.new),
                new: self.lock_by(&policies)?.new,
            }
            .list_changed_lines();
        }
        Ok(Some(request))
    }
}

/// A statement before today's policies.
struct Desk<'d> {
    firewall: &'d Arc<Firewall>,
    asked: &'d AskedStatement,
}

impl Desk<'_> {
    fn session(&self) -> Session {
        Session::new(self.asked.principal.clone())
            .at(self.asked.last)
            .over(self.asked.transport)
    }

    /// How `firewall` refuses `text`; none if it does not.
    fn refuse(&self, firewall: &Firewall, text: &str) -> Option<Rejection> {
        let decided = firewall.check(text, &self.asked.params, &self.session());
        match decided {
            Ok(Decision::Reject(rejection)) => Some(rejection),
            Ok(Decision::Allow(_)) | Err(_) => None,
        }
    }

    fn describe(
        &self,
        text: &str,
        rejection: &Rejection,
        obstacle: Option<String>,
    ) -> AccessRequest {
        let principal = self.asked.principal.to_string();
        AccessRequest {
            sql: text.to_owned(),
            code: rejection.code().slug().to_owned(),
            refused_by: rejection.policies().to_vec(),
            policies: String::new(),
            obstacle,
            changes: Vec::new(),
            lock: Vec::new(),
            test: format!(
                "[[case]]\nname = \"requested\"\nas = {}\nsql = {}\ndecision = \"allow\"\n",
                toml::Value::from(principal.as_str()),
                toml::Value::from(text)
            ),
            principal,
        }
    }

    /// A permit of each thing that the statement touches, for the principal alone.
    fn list_pieces(&self, grants: &Grants) -> Vec<String> {
        let subject = Subject::Principal(self.asked.principal.to_string());
        let tables = grants.tables.iter();
        let tables = tables.flat_map(|(table, grant)| grant.list_policies(&subject, table));
        let functions = grants.function_policy(&subject);
        let pieces = tables.chain(functions);
        pieces
            .map(|piece| piece.replace("learned.", "requested."))
            .collect()
    }

    /// Lets columns be read masked, or as tokens, whose plain values a forbid withholds. The columns that need it stand among
    /// the masked of `grants` afterwards, or those of tokens. Whether that is enough.
    fn read_masked_instead(&self, text: &str, grants: &mut Grants) -> bool {
        let columns: Vec<(String, String)> = (grants.tables.iter())
            .flat_map(|(table, grant)| {
                grant
                    .plain
                    .iter()
                    .map(|column| (table.clone(), column.clone()))
            })
            .collect();
        for shown_as in [ShownAs::Mask, ShownAs::Token] {
            // All are shown so, then each in plain again of which that is enough.
            for (table, column) in &columns {
                grants.show(table, column, shown_as);
            }
            if !self.is_enough(text, &self.list_pieces(grants)) {
                continue;
            }
            for (table, column) in &columns {
                grants.show(table, column, ShownAs::Plain);
                if !self.is_enough(text, &self.list_pieces(grants)) {
                    grants.show(table, column, shown_as);
                }
            }
            return true;
        }
        for (table, column) in &columns {
            grants.show(table, column, ShownAs::Plain);
        }
        false
    }

    /// Today's policies and `pieces`.
    fn with(&self, pieces: &[String]) -> Option<Firewall> {
        let mut sources: PolicySources = self.firewall.sources().clone();
        sources.policies.push(PolicyFile {
            name: "requested.cedar".to_owned(),
            text: pieces.concat(),
        });
        let catalog: Catalog = self.firewall.catalog().clone();
        self.firewall.renewed(catalog, sources).ok()
    }

    /// Whether `pieces` do: it is permitted, and no table that it reads is empty to it for want of a permit of rows.
    fn is_enough(&self, text: &str, pieces: &[String]) -> bool {
        let Some(firewall) = self.with(pieces) else {
            return false;
        };
        match firewall.explain(text, &self.asked.params, &self.session()) {
            Ok((Decision::Allow(_), trace)) => trace
                .relations
                .iter()
                .all(|relation| relation.rows != "none" || relation.source.is_none()),
            Ok((Decision::Reject(_), _)) | Err(_) => false,
        }
    }

    /// The pieces without which it does not do; none if all of them do not.
    fn find_least(&self, text: &str, pieces: &[String]) -> Option<Vec<String>> {
        if !self.is_enough(text, pieces) {
            return None;
        }
        let mut kept = pieces.to_vec();
        for piece in pieces {
            let rest: Vec<String> = kept.iter().filter(|kept| *kept != piece).cloned().collect();
            if self.is_enough(text, &rest) {
                kept = rest;
            }
        }
        Some(kept)
    }
}
