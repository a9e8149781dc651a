//! What an account may do beyond what it is for, of whichever engine.

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

impl Weak {
    /// Whether a start refuses an account for it that is to read.
    pub(crate) fn is_refused(&self) -> bool {
        match self.excess {
            Excess::Superuser | Excess::Write => true,
            Excess::Create | Excess::Nothing => false,
        }
    }

    /// Whether it is what sets apart who administers the server.
    pub(crate) fn is_administration(&self) -> bool {
        ["superuser", "role-attribute", "can-grant"].contains(&self.kind)
    }
}

/// What an account can do beyond reading, as far as a start is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Excess {
    /// Everything.
    Superuser,
    /// Write, or reach beyond its grants.
    Write,
    /// Create objects, which the gate's own transactions do not let it do while they only read.
    Create,
    /// Nothing that the gate's own transactions do not take away.
    Nothing,
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

/// What an account lacks so that changes can be looked at, kept with a receipt, and undone.
pub(crate) fn missing_steps(user: &str, relation: &str, privileges: &str, remedy: String) -> Weak {
    Weak {
        kind: "missing-step-grant",
        description: format!(
            "{user} lacks {privileges} on {relation}, which changes in steps take"
        ),
        remedy,
        excess: Excess::Nothing,
    }
}

/// What everybody may read of the rows that the firewall keeps.
#[cfg(feature = "postgres")]
pub(crate) fn readable_images(table: &str, remedy: String) -> Weak {
    Weak {
        kind: "readable-images",
        description: format!("everybody may read {table}, which holds values of rows"),
        remedy,
        excess: Excess::Nothing,
    }
}

/// What an account lacks to read tables as they were, and what comes of that.
#[cfg(feature = "mysql")]
pub(crate) fn missing_history(user: &str, what: &str, why: &str, remedy: String) -> Weak {
    Weak {
        kind: "missing-grant",
        description: format!("{user} lacks {what}: {why}"),
        remedy,
        excess: Excess::Nothing,
    }
}

/// What an account lacks to be told of what a view is made.
#[cfg(feature = "mysql")]
pub(crate) fn missing_view(user: &str, view: &str, remedy: String) -> Weak {
    Weak {
        kind: "missing-grant",
        description: format!(
            "{user} lacks SHOW VIEW on {view}: without it no agent finds or reads the view"
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
