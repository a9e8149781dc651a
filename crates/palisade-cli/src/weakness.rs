//! What an account may do beyond what it is for, of whichever engine.

use palisade_mysql as mysql;
use palisade_postgres as postgres;
use serde::Serialize;

/// Something that should be otherwise.
#[derive(Debug, Serialize)]
pub(crate) struct Weak {
    /// The word for what it is; stable.
    pub(crate) kind: &'static str,
    /// What there is.
    pub(crate) description: String,
    /// What mends it.
    pub(crate) remedy: String,
    /// What it is to a start.
    #[serde(skip)]
    pub(crate) excess: Excess,
}

/// What an account can do beyond reading, as far as a start is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Excess {
    /// Everything.
    Superuser,
    /// Write, or reach beyond its grants.
    Write,
    /// Nothing that the gate's own transactions do not take away.
    Nothing,
}

impl From<postgres::Weakness> for Weak {
    fn from(weakness: postgres::Weakness) -> Self {
        use postgres::WeaknessKind as Kind;
        let (kind, excess) = match weakness.kind {
            Kind::Superuser => ("superuser", Excess::Superuser),
            Kind::RoleAttribute => ("role-attribute", Excess::Write),
            Kind::PredefinedRole => ("predefined-role", Excess::Write),
            Kind::ServerFunction => ("server-function", Excess::Write),
            Kind::Owner => ("owner", Excess::Write),
            Kind::CanWrite => ("can-write", Excess::Write),
            // `TEMPORARY` is everybody's in every new database, and a read-only transaction makes nothing.
            Kind::CanCreate => ("can-create", Excess::Nothing),
            Kind::SecurityDefiner => ("security-definer", Excess::Nothing),
            Kind::Plaintext => ("plaintext", Excess::Nothing),
            Kind::NotReadOnly => ("not-read-only", Excess::Nothing),
            Kind::NoTimeout => ("no-timeout", Excess::Nothing),
            Kind::NoConnectionLimit => ("no-connection-limit", Excess::Nothing),
            Kind::UntestedVersion => ("untested-version", Excess::Nothing),
        };
        Self {
            kind,
            description: weakness.description,
            remedy: weakness.remedy,
            excess,
        }
    }
}

impl From<mysql::Weakness> for Weak {
    fn from(weakness: mysql::Weakness) -> Self {
        use mysql::WeaknessKind as Kind;
        let (kind, excess) = match weakness.kind {
            Kind::Powerful => ("superuser", Excess::Superuser),
            Kind::CanWrite => ("can-write", Excess::Write),
            // Nobody has these who was not given them.
            Kind::CanCreate => ("can-create", Excess::Write),
            Kind::CanGrant => ("can-grant", Excess::Write),
            Kind::Unknown => ("unknown-privilege", Excess::Write),
            // What active roles may do is found by itself; others are put on with a statement that is no query.
            Kind::Role => ("role", Excess::Nothing),
            Kind::SystemTables => ("system-tables", Excess::Nothing),
            Kind::CanExecute => ("can-execute", Excess::Nothing),
            Kind::Plaintext => ("plaintext", Excess::Nothing),
            Kind::NoConnectionLimit => ("no-connection-limit", Excess::Nothing),
            Kind::UntestedVersion => ("untested-version", Excess::Nothing),
        };
        Self {
            kind,
            description: weakness.description,
            remedy: weakness.remedy,
            excess,
        }
    }
}

/// What the policies let somebody see and the account cannot read: statements about it fail.
pub(crate) fn missing<'a>(
    user: &str,
    relation: &str,
    columns: impl IntoIterator<Item = &'a str>,
    remedy: String,
) -> Weak {
    let columns: Vec<&str> = columns.into_iter().collect();
    Weak {
        kind: "missing-grant",
        description: format!(
            "{user} cannot read {} of {relation}, which the policies show to somebody",
            columns.join(", ")
        ),
        remedy,
        excess: Excess::Nothing,
    }
}

/// What the policies let somebody change and the account cannot: such statements fail.
pub(crate) fn missing_changes(
    user: &str,
    relation: &str,
    privileges: &str,
    remedy: String,
) -> Weak {
    Weak {
        kind: "missing-grant",
        description: format!(
            "{user} lacks {privileges} on {relation}, which the policies permit to somebody"
        ),
        remedy,
        excess: Excess::Nothing,
    }
}

/// What an account that changes data can change beyond what the policies permit to anybody.
pub(crate) fn excessive_changes(
    user: &str,
    relation: &str,
    privileges: &str,
    remedy: String,
) -> Weak {
    Weak {
        kind: "can-write",
        description: format!(
            "{user} has {privileges} on {relation}, which no policy permits to anybody"
        ),
        remedy,
        excess: Excess::Write,
    }
}
