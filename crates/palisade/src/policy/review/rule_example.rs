//! An example of what each rule finds, for the manual. A test holds each to the check.

use crate::{dialect::Dialect, policy::rule::Rule};

/// Files of a policy folder of which a rule warns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleExample {
    /// The engine that the tables are of.
    pub dialect: Dialect,
    /// Each file with its text; the warning is of the first.
    pub files: &'static [(&'static str, &'static str)],
}

impl RuleExample {
    /// The tables that examples are about.
    #[must_use]
    pub fn tables(&self) -> &'static str {
        match self.dialect {
            Dialect::Postgres => POSTGRES,
            Dialect::Mysql => MYSQL,
            Dialect::Sqlite => SQLITE,
        }
    }
}

const SQLITE: &str =
    "CREATE TABLE tickets (id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, body TEXT);\n";

const MYSQL: &str = "CREATE TABLE tickets (id bigint PRIMARY KEY, body text);
CREATE TABLE other.orders (id bigint PRIMARY KEY);
";

const POSTGRES: &str = "CREATE TABLE public.customers (id bigint PRIMARY KEY, tenant bigint NOT NULL, email text NOT NULL UNIQUE, picture bytea);
CREATE TABLE public.tickets (id bigint PRIMARY KEY, tenant bigint NOT NULL, body text);
CREATE TABLE public.notes (id bigint PRIMARY KEY, ticket_id bigint NOT NULL REFERENCES public.tickets (id), text text);
CREATE VIEW public.open_tickets AS SELECT id, body FROM public.tickets;
CREATE TABLE public.events (id bigint NOT NULL, year bigint NOT NULL) PARTITION BY LIST (year);
CREATE TABLE public.events_2026 PARTITION OF public.events FOR VALUES IN (2026);
";

/// Of one policy file, over the tables of PostgreSQL.
const fn base(files: &'static [(&'static str, &'static str)]) -> Option<RuleExample> {
    Some(RuleExample {
        dialect: Dialect::Postgres,
        files,
    })
}

impl Rule {
    /// What it finds, by example; none where no folder alone shows it.
    #[must_use]
    pub fn example(self) -> Option<RuleExample> {
        match self {
            Self::AlwaysBeaten => base(&[(
                "base.cedar",
                r#"permit (principal, action == Action::"select", resource == Table::"public.tickets");

forbid (principal, action == Action::"select", resource);
"#,
            )]),
            Self::BeyondDatabase => Some(RuleExample {
                dialect: Dialect::Mysql,
                files: &[(
                    "base.cedar",
                    r#"permit (principal, action == Action::"select", resource);
"#,
                )],
            }),
            Self::CedarWarning => base(&[(
                "base.cedar",
                r#"permit (principal, action == Action::"select", resource)
when { false };
"#,
            )]),
            Self::ChildUnfiltered => base(&[(
                "base.cedar",
                r#"permit (principal, action, resource);

forbid (
  principal,
  action in [Action::"see", Action::"change", Action::"add"],
  resource is row::public::tickets
)
unless { resource.tenant == 1 };
"#,
            )]),
            Self::ConstraintTells => base(&[(
                "base.cedar",
                r#"permit (
  principal,
  action in [Action::"select", Action::"insert", Action::"write"],
  resource
);

permit (principal, action in Action::"read", resource);

permit (
  principal,
  action in [Action::"see", Action::"add"],
  resource is row::public::customers
)
when { resource.tenant == 1 };
"#,
            )]),
            Self::DifferentDemands => base(&[(
                "base.cedar",
                r#"permit (principal, action, resource);

@mask("email")
forbid (
  principal,
  action == Action::"read_plain",
  resource == Column::"public.customers.email"
);

@mask("null")
forbid (
  principal,
  action == Action::"read_plain",
  resource == Column::"public.customers.email"
);
"#,
            )]),
            Self::EvaluationFails => base(&[(
                "base.cedar",
                r#"permit (principal, action, resource)
when { 9223372036854775807 + 1 > 0 };
"#,
            )]),
            Self::HiddenWritten => base(&[(
                "base.cedar",
                r#"permit (principal, action, resource);

forbid (
  principal,
  action in Action::"read",
  resource == Column::"public.tickets.body"
);
"#,
            )]),
            Self::IgnoreUnknown => base(&[(
                "base.cedar",
                r#"// palisade:ignore no-row Only names are read here.
permit (principal, action == Action::"select", resource);
"#,
            )]),
            Self::IgnoreUnexplained => base(&[(
                "base.cedar",
                r#"// palisade:ignore no-rows
permit (principal, action == Action::"select", resource);
"#,
            )]),
            Self::IgnoreUnused => base(&[(
                "base.cedar",
                r#"// palisade:ignore no-rows Only names are read here.
permit (principal, action, resource);
"#,
            )]),
            Self::InvisibleInsert => base(&[(
                "base.cedar",
                r#"permit (
  principal,
  action in [Action::"select", Action::"insert", Action::"write", Action::"add"],
  resource
);

permit (principal, action == Action::"see", resource is row::public::tickets)
when { resource.tenant == 1 };
"#,
            )]),
            Self::MaskShowsAll => base(&[(
                "base.cedar",
                r#"permit (principal, action, resource);

@mask("expr(value)")
forbid (
  principal,
  action == Action::"read_plain",
  resource == Column::"public.tickets.body"
);
"#,
            )]),
            Self::MaskHides => base(&[(
                "base.cedar",
                r#"@mask("email")
forbid (
  principal,
  action == Action::"read_plain",
  resource == Column::"public.customers.email"
);

permit (
  principal,
  action in [Action::"select", Action::"see", Action::"read_plain"],
  resource
);
"#,
            )]),
            Self::MaskOfSystem => base(&[(
                "base.cedar",
                r#"permit (principal, action, resource == Table::"pg_catalog.pg_class");

permit (principal, action in Action::"read", resource);

@mask("null")
forbid (principal, action == Action::"read_plain", resource);
"#,
            )]),
            Self::MissingPermit => base(&[(
                "base.cedar",
                r#"permit (
  principal,
  action in [Action::"select", Action::"see", Action::"call"],
  resource
);
"#,
            )]),
            Self::NeverTrue => base(&[(
                "base.cedar",
                r#"permit (principal, action == Action::"see", resource is row::public::tickets)
when { resource.tenant == 1 && resource.tenant == 2 };
"#,
            )]),
            Self::NoMembers => base(&[
                (
                    "base.cedar",
                    r#"permit (principal in Role::"support", action, resource);
"#,
                ),
                (
                    "entities.json",
                    r#"[{ "uid": { "type": "Role", "id": "support" }, "attrs": {}, "parents": [] }]
"#,
                ),
            ]),
            Self::NoRows => base(&[(
                "base.cedar",
                r#"permit (principal, action == Action::"select", resource);

permit (principal, action in Action::"read", resource);
"#,
            )]),
            Self::NoToken => base(&[(
                "base.cedar",
                r#"permit (principal, action in [Action::"select", Action::"see"], resource);

permit (
  principal,
  action == Action::"read_token",
  resource == Column::"public.customers.picture"
);
"#,
            )]),
            Self::Overridden => base(&[(
                "base.cedar",
                r#"permit (principal, action == Action::"select", resource);

permit (
  principal,
  action == Action::"read_plain",
  resource == Column::"public.customers.email"
);

@mask("email")
forbid (principal, action == Action::"read_plain", resource)
when { resource == Column::"public.customers.email" };
"#,
            )]),
            Self::PartitionForbidden => base(&[(
                "base.cedar",
                r#"permit (principal, action, resource);

forbid (
  principal,
  action == Action::"select",
  resource == Table::"public.events_2026"
);
"#,
            )]),
            Self::PatternUnmatched => base(&[
                (
                    "classification.toml",
                    r#"[[column]]
pattern = "*.*.salary"
tags = ["pay"]
"#,
                ),
                (
                    "base.cedar",
                    r#"permit (principal, action, resource);
"#,
                ),
            ]),
            Self::PlainToOthers => base(&[
                (
                    "base.cedar",
                    r#"permit (principal, action, resource);

forbid (
  principal in Role::"sales",
  action == Action::"read_plain",
  resource == Column::"public.customers.email"
);

forbid (
  principal in Role::"support",
  action == Action::"read_plain",
  resource == Column::"public.customers.email"
);
"#,
                ),
                (
                    "entities.json",
                    r#"[
  { "uid": { "type": "Role", "id": "sales" }, "attrs": {}, "parents": [] },
  { "uid": { "type": "Role", "id": "support" }, "attrs": {}, "parents": [] },
  {
    "uid": { "type": "Agent", "id": "ann" },
    "attrs": {},
    "parents": [{ "type": "Role", "id": "sales" }]
  },
  {
    "uid": { "type": "Agent", "id": "ben" },
    "attrs": {},
    "parents": [{ "type": "Role", "id": "support" }]
  }
]
"#,
                ),
            ]),
            Self::Redundant => base(&[(
                "base.cedar",
                r#"permit (principal, action == Action::"select", resource);

permit (principal, action in Action::"read", resource);

@mask("null")
forbid (
  principal,
  action == Action::"read_plain",
  resource == Column::"public.tickets.body"
);

@mask("null")
forbid (principal, action == Action::"read_plain", resource)
when { resource == Column::"public.tickets.body" };
"#,
            )]),
            // It is of servers as they start.
            Self::Sampled => None,
            Self::Shadowed => base(&[(
                "base.cedar",
                r#"permit (principal, action == Action::"select", resource);

permit (principal, action == Action::"select", resource == Table::"public.tickets");
"#,
            )]),
            Self::SystemPermit => base(&[(
                "base.cedar",
                r#"permit (
  principal,
  action == Action::"select",
  resource in Schema::"pg_catalog"
);
"#,
            )]),
            Self::TemplateNames => base(&[
                (
                    "templates.toml",
                    r#"[[template]]
name = "orders"
description = "Every order."
sql = "SELECT id FROM orders"
parameters = []
"#,
                ),
                (
                    "base.cedar",
                    r#"permit (principal, action, resource);
"#,
                ),
            ]),
            Self::TokenGuessed => base(&[(
                "base.cedar",
                r#"permit (
  principal,
  action in [
    Action::"select",
    Action::"see",
    Action::"update",
    Action::"write",
    Action::"change",
    Action::"add"
  ],
  resource
);

permit (
  principal,
  action == Action::"read_token",
  resource == Column::"public.customers.email"
);
"#,
            )]),
            // A trigger of the tables would be one of every other example.
            Self::TriggerRefused => None,
            Self::UndoneCondition => base(&[(
                "base.cedar",
                r#"permit (principal, action == Action::"see", resource);

permit (principal, action == Action::"see", resource is row::public::tickets)
when { resource.tenant == 1 };
"#,
            )]),
            Self::UnknownName => base(&[
                (
                    "base.cedar",
                    r#"permit (principal == Agent::"anne", action, resource);
"#,
                ),
                (
                    "entities.json",
                    r#"[{ "uid": { "type": "Agent", "id": "ann" }, "attrs": {}, "parents": [] }]
"#,
                ),
            ]),
            Self::UntranslatableRows => base(&[(
                "base.cedar",
                r#"permit (principal, action == Action::"see", resource is row::public::tickets)
when { resource.tenant + 1 == 2 };
"#,
            )]),
            Self::Vacuous => base(&[(
                "base.cedar",
                r#"permit (principal, action == Action::"select", resource)
when { resource.tags.contains("public") };
"#,
            )]),
            Self::ViewAbsent => base(&[(
                "base.cedar",
                r#"permit (principal, action == Action::"select", resource)
when { resource.kind == "view" };

permit (
  principal,
  action in [Action::"see", Action::"read"],
  resource
);
"#,
            )]),
            // It takes a view that calls something.
            Self::ViewCalls => None,
            Self::ViewChanged => base(&[(
                "base.cedar",
                r#"permit (
  principal,
  action == Action::"update",
  resource == Table::"public.open_tickets"
);
"#,
            )]),
            // It takes a view that is not understood.
            Self::ViewUnread => None,
            Self::SqliteEstimate => Some(RuleExample {
                dialect: Dialect::Sqlite,
                files: &[(
                    "base.cedar",
                    r#"permit (principal, action, resource);

forbid (principal, action == Action::"select", resource)
when
{
  context has statement && context.statement has estimated_rows &&
  context.statement.estimated_rows > 1000
};
"#,
                )],
            }),
        }
    }
}
