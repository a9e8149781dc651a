//! The rules of `palisade policy check`: a code for every warning, what goes wrong, and the cure.

use std::fmt;

use crate::policy::sources::PolicySources;

/// Which file of a policy folder a rule needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    Entities,
    Classification,
    Templates,
}

macro_rules! rules {
    ($($name:ident $slug:literal $needs:ident: $summary:literal, $harm:literal, $cure:literal;)+) => {
        /// A rule that policies are held to. Each warning of a policy set is of one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Rule {
            $(#[doc = $summary] $name,)+
        }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Its code: what an ignore names.
            #[must_use]
            pub fn slug(self) -> &'static str {
                match self { $(Self::$name => $slug,)+ }
            }

            /// What it finds.
            #[must_use]
            pub fn summary(self) -> &'static str {
                match self { $(Self::$name => $summary,)+ }
            }

            /// What goes wrong.
            #[must_use]
            pub fn harm(self) -> &'static str {
                match self { $(Self::$name => $harm,)+ }
            }

            /// What to do about it.
            #[must_use]
            pub fn cure(self) -> &'static str {
                match self { $(Self::$name => $cure,)+ }
            }

            fn needs(self) -> Needs {
                match self { $(Self::$name => Needs::$needs,)+ }
            }
        }
    };
}

rules! {
    AlwaysBeaten "always-beaten" Nothing: "a forbid without a condition always applies where a permit does",
        "the permit permits nothing", "take the permit away, or give the forbid a condition";
    BeyondDatabase "beyond-database" Nothing: "a permit reaches tables of other databases",
        "on MySQL and MariaDB a permit of all tables is one of every database that the account can read",
        "name the schema in the scope, or leave out what is tagged `elsewhere`";
    CedarWarning "cedar-warning" Nothing: "Cedar's validator finds a policy odd",
        "a policy that never applies, or names that mix alphabets", "the message says what Cedar found";
    ChildUnfiltered "child-unfiltered" Nothing: "a table shows all of its rows, and refers by a foreign key to rows that are hidden",
        "lines of hidden orders are shown", "let its rows follow those to which they refer: `unless { resource.order_id_is_seen }`";
    ConstraintTells "constraint-tells" Nothing: "a unique or foreign key may be written by a principal from whom its rows or values are hidden",
        "constraint errors tell of hidden rows", "forbid writing the key, or show the rows";
    DifferentDemands "different-demands" Nothing: "masks, domains, `@max_rows` or `@max_time` of several policies differ",
        "the strictest applies, which one author did not mean", "let their conditions not overlap, or demand the same";
    EvaluationFails "evaluation-fails" Nothing: "a policy fails to evaluate for a principal",
        "that denies", "ask `has` before an optional attribute";
    HiddenWritten "hidden-written" Nothing: "a hidden column may be written",
        "forbids of reading forbid no writing", "forbid `write` too, or name the column in the permit";
    IgnoreUnknown "ignore-unknown" Nothing: "an ignore names a rule that does not exist",
        "it silences nothing", "write the code of the warning";
    IgnoreUnexplained "ignore-unexplained" Nothing: "an ignore has no reason",
        "it silences nothing, since its reason would have to be guessed later", "write the reason behind the code";
    IgnoreUnused "ignore-unused" Nothing: "an ignore silences nothing",
        "it would hide the next warning of its rule", "take it away";
    InvisibleInsert "invisible-insert" Nothing: "rows may be inserted that the inserter does not see",
        "`see` is filtered, and `add` is not", "give `add` the condition of `see`";
    MaskShowsAll "mask-shows-all" Nothing: "a mask gives the value back",
        "it hides nothing", "permit `read_plain`, or mask a part of the value";
    MaskHides "mask-hides" Nothing: "a mask for a principal who has `read_plain` and no `read_masked`",
        "the column does not exist to it, masked or plain", "permit `read` in the place of `read_plain` alone";
    MaskOfSystem "mask-of-system" Nothing: "a mask on a relation of the engine's own",
        "the column does not exist there for those whom the mask concerns", "leave these relations out of the forbid";
    MissingPermit "missing-permit" Nothing: "a permit needs others, which no policy gives",
        "`select` needs `read` and `call`; `update` needs `write`, `change` and `add`; `delete` needs `change`; `write` needs `update` or `insert`",
        "permit those too";
    NeverTrue "never-true" Nothing: "comparisons of one attribute are never true together",
        "the condition never holds", "compare with `||`, or in two policies";
    NoMembers "no-members" Entities: "a role has no members in `entities.json`",
        "policies for it never apply", "give it members, or take the role away";
    NoRows "no-rows" Nothing: "a table can be selected, and no principal sees a row of it, or one does not whom the permit names",
        "every answer is empty", "permit `see` on its rows, or leave them out of the forbid that hides them";
    NoToken "no-token" Nothing: "a column has no tokens",
        "its type has no text, and it is NULL instead", "leave the column out of the permit of `read_token`";
    Overridden "overridden" Nothing: "forbids take away all that a permit gives, for every principal that is known (`--deep`)",
        "the permit permits nothing", "take the permit away, or correct whom the forbids are about";
    PartitionForbidden "partition-forbidden" Nothing: "a forbid of one partition or child",
        "it applies to all of the parent", "forbid the parent, or by a condition on rows";
    PatternUnmatched "pattern-unmatched" Classification: "a `pattern` of the classification matches nothing",
        "nothing is tagged; of several `patterns` any may be missing", "correct the pattern, or take it away";
    PlainToOthers "plain-to-others" Entities: "a column is withheld from every role that a known principal is in, and plain to any other principal",
        "whoever is in no role reads it, the agent by default too", "forbid it to all `unless` they are in a role, or permit reading to roles alone";
    Redundant "redundant" Nothing: "without a forbid the same is forbidden or not permitted (`--deep`)",
        "it says nothing that others do not say, and its reader believes it does", "take it away, or keep it with an ignore that says what it guards against";
    Sampled "sampled" Nothing: "the policies were tried on a part of the tables",
        "a mistake that only the others show denies there", "run `palisade policy check`";
    Shadowed "shadowed" Nothing: "other permits give all that a permit does (`--deep`)",
        "taking it away takes nothing from its principals", "take it away, or take away the wider permit";
    SystemPermit "system-permit" Nothing: "a permit of a relation of the engine's own",
        "it needs the relation's name in its scope", "name the relation with `==`";
    TemplateNames "template-names" Templates: "the statement of a template names what is not in the catalog",
        "whoever runs it is refused", "correct the name";
    TokenGuessed "token-guessed" Nothing: "a column may be written by somebody who reads it as tokens or hashes",
        "right guesses would show; such a change is refused", "permit `write` on other columns";
    TriggerRefused "trigger-refused" Nothing: "a permit of changes of a table with a trigger that none of those who may make them may call",
        "each change that sets the trigger off is refused", "permit `call` of the trigger by its name, once you have read what it does";
    UndoneCondition "undone-condition" Nothing: "a permit shows every row, and another permits some of them by a condition",
        "the condition has no effect for the same principals", "take the wider permit away, or give it a condition";
    UnknownName "unknown-name" Nothing: "a name is not in the catalog, the entities or the templates",
        "the policy never applies", "correct the name";
    UntranslatableRows "untranslatable-rows" Nothing: "a permit of rows has a condition without SQL form",
        "it permits no row", "compare columns with constants and attributes of the principal";
    Vacuous "vacuous" Nothing: "a policy applies to no principal and table that there is (`--deep`)",
        "it does nothing, and its author believes it does", "correct whom or what it is about, or take it away";
    ViewAbsent "view-absent" Nothing: "a permit of a view over a table that is not permitted to those who may select the view",
        "a view is read with the permits of who asks, so that it does not exist to them", "permit `select`, `see` and `read` on the tables below it too";
    ViewCalls "view-calls" Nothing: "a permit of a view that calls a function which those who may select the view may not call",
        "a view is read with the permits of who asks, so that each of its statements is refused", "permit `call` of the function by its name, or let the view do without it";
    ViewChanged "view-changed" Nothing: "a permit of changes on a view",
        "changes through a view are refused", "permit them on the table";
    ViewUnread "view-unread" Nothing: "a permit of a view whose definition is not understood",
        "a view is read by its definition, so that each of its statements is refused", "permit the tables that it reads, or define it otherwise";
    SqliteEstimate "no-estimates" Nothing: "a policy looks at estimates on SQLite",
        "SQLite estimates neither costs nor rows, so that they are never there", "limit rows with `@max_rows`";
}

impl Rule {
    /// The rule with this code.
    #[must_use]
    pub fn from_slug(slug: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.slug() == slug)
    }

    /// Whether what it finds can be mended by taking it away, without anybody's judgement.
    #[must_use]
    pub fn is_mended_alone(self) -> bool {
        matches!(self, Self::IgnoreUnused)
    }

    /// Whether only a deep check tries it.
    #[must_use]
    pub fn is_deep(self) -> bool {
        matches!(
            self,
            Self::Overridden | Self::Redundant | Self::Shadowed | Self::Vacuous
        )
    }

    /// Why the rule finds nothing in these sources, whatever is wrong; none if it was checked.
    #[must_use]
    pub fn why_unchecked(self, sources: &PolicySources) -> Option<&'static str> {
        let (missing, why) = match self.needs() {
            Needs::Nothing => return None,
            Needs::Entities => (sources.entities.is_none(), "there is no entities.json"),
            Needs::Classification => (
                sources.classification.is_none(),
                "there is no classification.toml",
            ),
            Needs::Templates => (sources.templates.is_none(), "there is no templates.toml"),
        };
        missing.then_some(why)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.slug())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Rule;

    #[test]
    fn codes_are_plain_and_each_is_of_one_rule() {
        let mut slugs = BTreeSet::new();
        for rule in Rule::ALL {
            let slug = rule.slug();
            assert!(slugs.insert(slug), "{slug}");
            assert!(
                slug.chars().all(|c| c.is_ascii_lowercase() || c == '-'),
                "{slug}"
            );
            assert_eq!(Rule::from_slug(slug), Some(*rule));
            for text in [rule.summary(), rule.harm(), rule.cure()] {
                assert!(!text.is_empty() && !text.ends_with('.'), "{slug}: {text}");
            }
        }
    }
}
