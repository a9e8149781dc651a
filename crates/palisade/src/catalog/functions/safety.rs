//! What a function reaches beyond its arguments.

/// A class of functions that policies see as `resource.safety`, from the harmless to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Safety {
    /// Its result depends on its arguments alone.
    Pure,
    /// Harmless, but differs from call to call: time, random numbers.
    Volatile,
    /// Tells of the session's own account and database, which whoever configured it knows.
    Account,
    /// Reads or sets the state of the connection or server.
    Session,
    /// Reads system catalogs or index internals.
    Catalog,
    /// Reads or writes files.
    File,
    /// Reaches the network.
    Network,
    /// Runs text as SQL.
    DynamicSql,
    /// Takes locks.
    Lock,
    /// Controls the server.
    Admin,
    /// Makes values whose size, or takes time whose length, its arguments choose.
    Resource,
    /// Not classified.
    Unknown,
}

impl Safety {
    /// Every class.
    pub const ALL: [Self; 12] = [
        Self::Pure,
        Self::Volatile,
        Self::Account,
        Self::Session,
        Self::Catalog,
        Self::File,
        Self::Network,
        Self::DynamicSql,
        Self::Lock,
        Self::Admin,
        Self::Resource,
        Self::Unknown,
    ];

    /// The word policies see as `resource.safety`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pure => "pure",
            Self::Volatile => "volatile",
            Self::Account => "account",
            Self::Session => "session",
            Self::Catalog => "catalog",
            Self::File => "file",
            Self::Network => "network",
            Self::DynamicSql => "dynamic-sql",
            Self::Lock => "lock",
            Self::Admin => "admin",
            Self::Resource => "resource",
            Self::Unknown => "unknown",
        }
    }

    /// The class called `name`, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|safety| safety.name() == name)
    }

    /// Whether a permit must name the function: a blanket permit does not reach it.
    #[must_use]
    pub fn needs_named_permit(self) -> bool {
        match self {
            Self::Pure | Self::Volatile | Self::Account => false,
            Self::Session
            | Self::Catalog
            | Self::File
            | Self::Network
            | Self::DynamicSql
            | Self::Lock
            | Self::Admin
            | Self::Resource
            | Self::Unknown => true,
        }
    }
}
