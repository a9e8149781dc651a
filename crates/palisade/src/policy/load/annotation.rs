//! Annotations: the parameters of obligations. They can only tighten, so each is accepted only
//! where it has an effect and cannot be mistaken for a grant.

use std::cmp::Reverse;

use cedar_policy::{Effect, Policy};

use crate::policy::{
    approval::ApprovalLevel,
    cedar::{
        by_action::{covers, covers_any},
        schema::PolicyAction,
    },
    load::{
        diagnostic::{PolicyProblem, probably},
        source::Origin,
    },
    obligation::{Caps, DatePart, ExprMask, HashDomain, HashMask, JsonPaths, Mask},
};
use crate::{
    dialect::Dialect,
    syntax::{
        mask_expr,
        mask_expr::{Read, Unread},
    },
};

/// What a policy's annotations say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::policy) struct Annotations {
    /// `@mask` or `@aggregate_only`, on a forbid of `read_plain` or a permit of `read_masked`.
    pub(in crate::policy) mask: Option<Mask>,
    /// `else null` behind the mask: NULL for the columns whose types do not take it.
    pub(in crate::policy) is_mask_or_null: bool,
    /// `@domain`, on a permit of `read_token`.
    pub(in crate::policy) domain: Option<HashDomain>,
    /// `@approval`, on a permit.
    pub(in crate::policy) approval: Option<ApprovalLevel>,
    /// `@max_rows` and `@max_time`.
    pub(in crate::policy) caps: Caps,
    /// `@message`.
    pub(in crate::policy) message: Option<String>,
}

impl Annotations {
    /// Whether a permit with them takes something away from what others permit.
    pub(in crate::policy) fn demands(&self) -> bool {
        self.approval.is_some() || !self.caps.is_none()
    }

    /// What two policies demand together: of each annotation the stricter one. A message demands nothing; of several the
    /// one of the first policy by id is told.
    #[must_use]
    pub(in crate::policy) fn strictest(self, other: &Self) -> Self {
        let Self {
            mask,
            is_mask_or_null,
            domain,
            approval,
            caps,
            message,
        } = self;
        Self {
            mask: mask
                .into_iter()
                .chain(other.mask.clone())
                .reduce(Mask::strictest),
            is_mask_or_null: is_mask_or_null && other.is_mask_or_null,
            // None is the column's own, which is the smallest.
            domain: domain
                .zip(other.domain.clone())
                .map(|(one, other)| one.max(other)),
            approval: approval.max(other.approval),
            caps: caps.tightest(other.caps),
            message: message.or_else(|| other.message.clone()),
        }
    }
}

/// Reads the annotations of `policy`; what is unknown, malformed or without effect becomes a problem.
pub(in crate::policy) fn read(
    policy: &Policy,
    origin: &Origin<'_>,
    dialect: Dialect,
    problems: &mut Vec<PolicyProblem>,
) -> Annotations {
    let mut out = Annotations::default();
    let mut names: Vec<(&str, &str)> = policy.annotations().collect();
    names.sort_unstable();
    for (name, value) in names {
        let read = match name {
            "id" => id(value),
            "mask" => {
                let (wanted, or_null) = split_else(value);
                out.is_mask_or_null = or_null;
                mask(policy, wanted, dialect).and_then(|mask| match out.mask {
                    None => {
                        out.mask = Some(mask);
                        Ok(())
                    }
                    Some(_) => Err(Refused::new(BOTH_MASKS).help(TWO_POLICIES)),
                })
            }
            "aggregate_only" => aggregate_only(policy, value).and_then(|mask| match out.mask {
                None => {
                    out.mask = Some(mask);
                    Ok(())
                }
                Some(_) => Err(Refused::new(BOTH_MASKS).help(TWO_POLICIES)),
            }),
            "domain" => domain(policy, value).map(|domain| out.domain = Some(domain)),
            "max_rows" => max_rows(policy, value).map(|caps| out.caps = out.caps.tightest(caps)),
            "max_time" => max_time(policy, value).map(|caps| out.caps = out.caps.tightest(caps)),
            "message" => message(policy, value).map(|text| out.message = Some(text)),
            "approval" => approval(policy, value).map(|level| out.approval = Some(level)),
            unknown => Err(Refused {
                message: format!("there is no annotation `@{unknown}`"),
                help: Some(match probably(unknown, annotation_names()) {
                    Some(name) => format!("did you mean `@{name}`?"),
                    None => {
                        let names: Vec<&str> = annotation_names().collect();
                        format!("the annotations are `@{}`", names.join("`, `@"))
                    }
                }),
            }),
        };
        if let Err(refused) = read {
            problems.push(
                origin
                    .at_annotation(name, refused.message)
                    .with_help(refused.help),
            );
        }
    }
    out
}

/// An annotation of policies, as the manual lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Annotation {
    /// Its name, behind the `@`.
    pub name: &'static str,
    /// How it is written.
    pub form: &'static str,
    /// The policies that take it.
    pub place: &'static str,
    /// What it does.
    pub effect: &'static str,
}

/// Every annotation.
pub const ANNOTATIONS: &[Annotation] = &[
    Annotation {
        name: "id",
        form: r#"@id("tenant.own")"#,
        place: "every policy",
        effect: "Names the policy in traces, refusals and audit records. Without it a policy is called by its file and place.",
    },
    Annotation {
        name: "mask",
        form: r#"@mask("last(4)")"#,
        place: "a forbid of `read_plain`, a permit of `read_masked`",
        effect: "Replaces the column's values by what the mask makes of them. `else null` behind the mask gives NULL for columns whose types do not take it.",
    },
    Annotation {
        name: "aggregate_only",
        form: r#"@aggregate_only("5")"#,
        place: "a forbid of `read_plain`, a permit of `read_masked`",
        effect: "COUNT, SUM and AVG see the column's values where they put together at least so many of them. Everything else sees NULL, or is refused.",
    },
    Annotation {
        name: "domain",
        form: r#"@domain("people")"#,
        place: "a permit of `read_token`",
        effect: "Columns of one domain have equal tokens for equal values, so that they can be joined. Without it, each column is a domain of its own.",
    },
    Annotation {
        name: "max_rows",
        form: r#"@max_rows("100")"#,
        place: "a permit of `select`, `insert`, `update` or `delete`; a policy of `see`",
        effect: "Bounds the rows of an answer. With `else refuse` behind the number, an answer with more rows is refused, not cut. On a permit of a change it bounds the rows that one statement changes.",
    },
    Annotation {
        name: "max_time",
        form: r#"@max_time("5s")"#,
        place: "a permit of `select`, `insert`, `update` or `delete`; a policy of `see`",
        effect: "Bounds the time that a statement may take, in `s` or `ms`. It lowers the configuration's `statement_timeout_ms` for this statement.",
    },
    Annotation {
        name: "message",
        form: r#"@message("Credentials are not for agents.")"#,
        place: "a forbid",
        effect: "The refusal shows this sentence to the agent.",
    },
    Annotation {
        name: "approval",
        form: r#"@approval("required")"#,
        place: "a permit",
        effect: "What the policy permits runs once a person has approved it. With `\"operator\"`, only an operator's approval counts.",
    },
];

fn annotation_names() -> impl Iterator<Item = &'static str> {
    ANNOTATIONS.iter().map(|annotation| annotation.name)
}

/// The smallest group that can be demanded: an aggregate of one value is that value.
const SMALLEST_GROUP: u32 = 2;

const BOTH_MASKS: &str = "a policy has `@mask` or `@aggregate_only`, not both";
const TWO_POLICIES: &str = "write two policies; where both apply, the column is NULL";

const MASK_FORMS: &str = "the masks are `null`, `fixed(***)`, `last(4)`, `first(4)`, `email`, `hash`, `hash(domain)`, \
     `date(month)` (or `year`, `day`, `hour`), `bucket(100)`, `paths(address.city)` of JSON, and `expr(…)` with an SQL expression over `value`; \
     `last(4) else null` gives NULL for columns whose types do not take the mask";

/// Why an annotation is not accepted.
struct Refused {
    message: String,
    help: Option<String>,
}

impl Refused {
    fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: None,
        }
    }

    fn help(self, help: impl Into<String>) -> Self {
        Self {
            help: Some(help.into()),
            ..self
        }
    }
}

fn id(value: &str) -> Result<(), Refused> {
    if value.trim().is_empty() || value.chars().any(char::is_control) {
        return Err(Refused::new(
            "a policy's `@id` is a name, not empty, without control characters",
        ));
    }
    Ok(())
}

fn mask(policy: &Policy, value: &str, dialect: Dialect) -> Result<Mask, Refused> {
    require_masking(policy, "mask")?;
    if let Some(expression) = value.trim().strip_prefix("expr(") {
        let expression = expression
            .strip_suffix(')')
            .ok_or_else(|| Refused::new(format!("`{value}` has no `)` at its end")))?;
        return expr(expression, dialect);
    }
    if let Some(paths) = value.trim().strip_prefix("paths(") {
        let paths = paths
            .strip_suffix(')')
            .ok_or_else(|| Refused::new(format!("`{value}` has no `)` at its end")))?;
        let paths_of = || paths.split(',').map(str::trim);
        if let Some(path) = paths_of().find(|path| *path == "$" || path.starts_with("$.")) {
            // Taken for a key by the name `$`, it would hide all that it is to show.
            let message =
                format!("`{path}` begins with `$`: paths begin with a key of the document");
            let written: Vec<&str> = paths_of()
                .map(|path| path.strip_prefix("$.").unwrap_or(path))
                .filter(|path| *path != "$")
                .collect();
            let help = match written.as_slice() {
                [] => "to show all of the document, permit `read_plain`".to_owned(),
                written => format!("write `paths({})`", written.join(", ")),
            };
            return Err(Refused::new(message).help(help));
        }
        return JsonPaths::parse(paths)
            .map(Mask::Paths)
            .map_err(Refused::new);
    }
    parse_mask(value)
        .ok_or_else(|| Refused::new(format!("`{value}` is not a mask")).help(MASK_FORMS))
}

fn aggregate_only(policy: &Policy, value: &str) -> Result<Mask, Refused> {
    require_masking(policy, "aggregate_only")?;
    let smallest = value.trim().parse::<u32>().ok();
    smallest
        .filter(|smallest| *smallest >= SMALLEST_GROUP)
        .map(Mask::AggregateOnly)
        .ok_or_else(|| {
            Refused::new(format!("`{value}` is no size of a group")).help(
                "write the fewest values that an aggregate must put together, \
                 at least 2: `@aggregate_only(\"5\")`",
            )
        })
}

/// Refuses an annotation that says what stands in the place of values on a policy that is not about these alone.
fn require_masking(policy: &Policy, annotation: &str) -> Result<(), Refused> {
    let (wanted, what) = match policy.effect() {
        Effect::Permit => (PolicyAction::ReadMasked, "a permit of `read_masked`"),
        Effect::Forbid => (PolicyAction::ReadPlain, "a forbid of `read_plain`"),
    };
    let only = PolicyAction::ALL
        .iter()
        .all(|action| covers(policy, *action) == (*action == wanted));
    if !only {
        return Err(Refused::new(format!(
            "`@{annotation}` has no effect here: on a {} it belongs to {what} alone",
            match policy.effect() {
                Effect::Permit => "permit",
                Effect::Forbid => "forbid",
            }
        ))
        .help(format!(
            "write `action == Action::\"{}\"` in the policy's scope",
            wanted.name()
        )));
    }
    Ok(())
}

/// A mask, and whether `else null` is behind it.
fn split_else(value: &str) -> (&str, bool) {
    let mask = value.trim_end().strip_suffix("null").map(str::trim_end);
    let mask = mask.and_then(|rest| rest.strip_suffix("else"));
    match mask {
        // A blank or a parenthesis is before it, so that no other word ends in it.
        Some(mask) if mask.ends_with([' ', ')']) => (mask.trim_end(), true),
        Some(_) | None => (value, false),
    }
}

fn expr(text: &str, dialect: Dialect) -> Result<Mask, Refused> {
    let Read {
        formula,
        text,
        names,
    } = mask_expr::read(text.trim(), dialect).map_err(|Unread { message, help }| Refused {
        message: format!("this is no mask: {message}"),
        help,
    })?;
    Ok(Mask::Expr(ExprMask {
        text,
        formula,
        names,
    }))
}

fn approval(policy: &Policy, value: &str) -> Result<ApprovalLevel, Refused> {
    match policy.effect() {
        Effect::Permit => ApprovalLevel::parse(value).ok_or_else(|| {
            Refused::new(format!("`{value}` is no approval"))
                .help(r#"write `@approval("required")` or `@approval("operator")`"#)
        }),
        Effect::Forbid => Err(Refused::new("`@approval` has no effect on a forbid")
            .help("what is forbidden is not approved; it belongs to a permit")),
    }
}

fn domain(policy: &Policy, value: &str) -> Result<HashDomain, Refused> {
    let only = policy.effect() == Effect::Permit
        && PolicyAction::ALL
            .iter()
            .all(|action| covers(policy, *action) == (*action == PolicyAction::ReadToken));
    if !only {
        return Err(Refused::new(
            "`@domain` has no effect here: it belongs to a permit of `read_token` alone",
        )
        .help("write `action == Action::\"read_token\"` in the policy's scope"));
    }
    named_domain(value).ok_or_else(|| {
        Refused::new(format!("`{value}` is not a domain"))
            .help(r#"write a word of letters, digits, `_` and `-`: `@domain("people")`"#)
    })
}

fn named_domain(value: &str) -> Option<HashDomain> {
    let domain = value.trim();
    let is_word = !domain.is_empty()
        && domain
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    is_word.then(|| HashDomain::Named(domain.to_owned()))
}

fn parse_mask(value: &str) -> Option<Mask> {
    let value = value.trim();
    let hash = |domain| Mask::Hash(HashMask { domain, key: None });
    match value {
        "null" => return Some(Mask::Null),
        "email" => return Some(Mask::Email),
        "hash" => return Some(hash(HashDomain::Column)),
        _ => {}
    }
    let (name, rest) = value.split_once('(')?;
    let argument = rest.strip_suffix(')')?;
    let count = || argument.trim().parse().ok().filter(|n: &u16| *n > 0);
    match name.trim() {
        "last" => Some(Mask::Last(Reverse(count()?))),
        "first" => Some(Mask::First(Reverse(count()?))),
        "date" => DatePart::ALL
            .into_iter()
            .find(|part| part.name() == argument.trim())
            .map(Mask::Date),
        "bucket" => {
            let width: u32 = argument.trim().parse().ok()?;
            // A width of 1 would show whole numbers as they are.
            (width > 1).then_some(Mask::Bucket(width))
        }
        "hash" => named_domain(argument).map(hash),
        "fixed" => {
            let text = match argument.strip_prefix('"') {
                Some(quoted) => quoted.strip_suffix('"')?,
                None => argument,
            };
            (!text.contains(['"', '\\']) && !text.chars().any(char::is_control))
                .then(|| Mask::Fixed(text.to_owned()))
        }
        _ => None,
    }
}

/// Behind a cap: more is refused.
const REFUSE: &str = "else refuse";

fn max_rows(policy: &Policy, value: &str) -> Result<Caps, Refused> {
    require_capping(policy, "max_rows")?;
    let (rows, refuses) = match value.trim().strip_suffix(REFUSE) {
        Some(rows) => (rows, true),
        None => (value, false),
    };
    if refuses && !covers_any(policy, PolicyAction::is_read_of_rows) {
        return Err(Refused::new(format!("`{REFUSE}` has no effect here"))
            .help("a change of more rows is always refused; write the number alone"));
    }
    let rows = rows.trim().parse::<u64>().ok().filter(|rows| *rows > 0);
    let rows = rows.ok_or_else(|| {
        Refused::new(format!("`{value}` is not a number of rows")).help(
            r#"write a positive whole number: `@max_rows("100")`, or `@max_rows("100 else refuse")`"#,
        )
    })?;
    Ok(match refuses {
        false => Caps {
            rows: Some(rows),
            ..Caps::default()
        },
        // What a permit of changes beside reads bounds is bounded all the same.
        true => Caps {
            rows_or_refusal: Some(rows),
            ..Caps::default()
        },
    })
}

fn max_time(policy: &Policy, value: &str) -> Result<Caps, Refused> {
    require_capping(policy, "max_time")?;
    let trimmed = value.trim();
    let time = match trimmed.strip_suffix("ms") {
        Some(milliseconds) => milliseconds.trim_end().parse::<u64>().ok(),
        None => trimmed
            .strip_suffix('s')
            .and_then(|seconds| seconds.trim_end().parse::<u64>().ok())
            .and_then(|seconds| seconds.checked_mul(1000)),
    };
    let time_ms = time.filter(|time| *time > 0).ok_or_else(|| {
        Refused::new(format!("`{value}` is not a time"))
            .help(r#"write whole seconds or milliseconds: `@max_time("5s")`, `@max_time("500ms")`"#)
    })?;
    Ok(Caps {
        time_ms: Some(time_ms),
        ..Caps::default()
    })
}

/// Whether a permit of `action` lets rows through that are counted, those read or those changed. Truncation counts none.
fn lets_rows_through(action: PolicyAction) -> bool {
    let changes = action.is_change() && action.is_of_tables() && action != PolicyAction::Truncate;
    changes || action.is_read_of_rows()
}

/// Refuses a cap on a policy that lets nothing through which could be counted.
fn require_capping(policy: &Policy, annotation: &str) -> Result<(), Refused> {
    let effective = match policy.effect() {
        Effect::Permit => covers_any(policy, lets_rows_through),
        // A forbid of `select` lets nothing through that could be counted.
        Effect::Forbid => covers(policy, PolicyAction::See),
    };
    match effective {
        true => Ok(()),
        false => Err(Refused::new(format!("`@{annotation}` has no effect here"))
            .help("it belongs to a policy of `select` or `see` that lets rows through, or to a permit of `insert`, `update` or `delete`")),
    }
}

fn message(policy: &Policy, value: &str) -> Result<String, Refused> {
    match policy.effect() {
        Effect::Permit => Err(Refused::new("`@message` has no effect on a permit")
            .help("it is shown when a forbid refuses")),
        Effect::Forbid if value.trim().is_empty() || value.chars().any(char::is_control) => Err(
            Refused::new("`@message` is a sentence, not empty, without control characters"),
        ),
        Effect::Forbid => Ok(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "tests"
    )]

    use super::*;
    use crate::policy::load::{diagnostic::Source, source::parse};

    fn check(text: &str) -> Result<Annotations, PolicyProblem> {
        let mut problems = Vec::new();
        let source = Source {
            name: "a.cedar",
            text,
        };
        let located = parse(source, &mut problems);
        assert!(problems.is_empty(), "{problems:?}");
        let out = read(
            &located[0].policy,
            &located[0].origin,
            Dialect::Sqlite,
            &mut problems,
        );
        problems.into_iter().next().map_or(Ok(out), Err)
    }

    fn mask_of(value: &str) -> Option<Mask> {
        let text = format!(
            "@mask(\"{value}\") forbid(principal, action == Action::\"read_plain\", resource);"
        );
        check(&text).unwrap().mask
    }

    #[test]
    fn aggregates_have_a_smallest_group() {
        let read = |annotations: &str| {
            check(&format!(
                "{annotations} forbid(principal, action == Action::\"read_plain\", resource);"
            ))
        };
        let five = Some(Mask::AggregateOnly(5));
        assert_eq!(read("@aggregate_only(\"5\")").unwrap().mask, five);
        for wrong in ["", "1", "0", "-5", "five", "5.0"] {
            let told = read(&format!("@aggregate_only(\"{wrong}\")")).unwrap_err();
            assert!(told.to_string().contains("no size of a group"), "{told}");
        }
        let told = read("@aggregate_only(\"5\") @mask(\"null\")").unwrap_err();
        assert!(told.to_string().contains("not both"), "{told}");
        let permit =
            "@aggregate_only(\"5\") permit(principal, action == Action::\"select\", resource);";
        let told = check(permit).unwrap_err();
        assert!(
            told.to_string().contains("`@aggregate_only` has no effect"),
            "{told}"
        );
    }

    #[test]
    fn masks_are_read() {
        assert_eq!(mask_of("last(4)"), Some(Mask::Last(Reverse(4))));
        assert_eq!(mask_of("null"), Some(Mask::Null));
        assert_eq!(
            mask_of("fixed(\\\"***\\\")"),
            Some(Mask::Fixed("***".to_owned()))
        );
        assert_eq!(mask_of("fixed(***)"), Some(Mask::Fixed("***".to_owned())));
        for written in [
            "first(3)",
            "email",
            "hash",
            "hash(people)",
            "date(month)",
            "bucket(500)",
        ] {
            assert_eq!(mask_of(written).unwrap().to_string(), written);
        }
        let or_null = |written: &str| {
            let text = format!(
                "@mask(\"{written}\") forbid(principal, action == Action::\"read_plain\", resource);"
            );
            let read = check(&text).unwrap();
            (read.mask.unwrap().to_string(), read.is_mask_or_null)
        };
        assert_eq!(or_null("email"), ("email".to_owned(), false));
        assert_eq!(or_null("email else null"), ("email".to_owned(), true));
        assert_eq!(
            or_null("last(4)  else  null "),
            ("last(4)".to_owned(), true)
        );
        assert_eq!(
            or_null("fixed(or else null)"),
            ("fixed(or else null)".to_owned(), false)
        );
    }

    /// Annotations with every combination of a few values of each.
    fn some() -> Vec<Annotations> {
        let masks = [
            "date(day)",
            "bucket(10)",
            "first(4)",
            "last(2)",
            "email",
            "hash(people)",
            "hash",
            "fixed(x)",
            "null",
        ];
        let masks: Vec<Option<Mask>> = masks
            .iter()
            .map(|text| parse_mask(text))
            .chain([None])
            .collect();
        let domains = [
            None,
            named_domain("a"),
            named_domain("b"),
            Some(HashDomain::Column),
        ];
        let mut out = Vec::new();
        for mask in &masks {
            for domain in &domains {
                for approval in [
                    None,
                    Some(ApprovalLevel::Required),
                    Some(ApprovalLevel::Operator),
                ] {
                    for (rows, refused, time_ms) in [
                        (None, None, None),
                        (Some(1), None, Some(7)),
                        (Some(100), Some(10), None),
                    ] {
                        out.push(Annotations {
                            mask: mask.clone(),
                            is_mask_or_null: false,
                            domain: domain.clone(),
                            approval,
                            caps: Caps {
                                rows,
                                rows_or_refusal: refused,
                                time_ms,
                            },
                            message: None,
                        });
                    }
                }
            }
        }
        out
    }

    /// Whether `one` demands at least what `other` does.
    fn is_at_least(one: &Annotations, other: &Annotations) -> bool {
        let caps = |of: &Annotations| {
            [of.caps.rows, of.caps.rows_or_refusal, of.caps.time_ms]
                .map(|cap| cap.unwrap_or(u64::MAX))
        };
        let (ours, theirs) = (caps(one), caps(other));
        let domain = |of: &Annotations| of.domain.clone().unwrap_or(HashDomain::Column);
        one.mask >= other.mask
            && domain(one) >= domain(other)
            && one.approval >= other.approval
            && ours.iter().zip(&theirs).all(|(one, other)| one <= other)
    }

    #[test]
    fn combining_is_order_free_and_only_tightens() {
        let all = some();
        let of = |one: &Annotations, other: &Annotations| one.clone().strictest(other);
        for (i, a) in all.iter().enumerate() {
            assert_eq!(of(a, a), *a);
            for (j, b) in all.iter().enumerate() {
                let both = of(a, b);
                assert_eq!(both, of(b, a));
                assert!(
                    is_at_least(&both, a) && is_at_least(&both, b),
                    "{a:?} {b:?}"
                );
                // Each of another part of them.
                let c = &all[(i * 7 + j * 31) % all.len()];
                assert_eq!(of(&both, c), of(a, &of(b, c)));
            }
        }
    }

    #[test]
    fn expressions_are_read_with_their_problems() {
        let mask = mask_of("expr( substr(value, 1, 2)||'**' )").unwrap();
        assert_eq!(mask.to_string(), "expr(SUBSTR(value, 1, 2) || '**')");
        for (value, message) in [
            ("expr(value", "has no `)`"),
            ("expr()", "is no expression"),
            ("expr(value + 1)", "arithmetic"),
            ("expr((SELECT 1))", "a subquery"),
        ] {
            let text = format!(
                "\n@mask(\"{value}\")\nforbid(principal, action == Action::\"read_plain\", resource);"
            );
            let problem = check(&text).unwrap_err();
            assert!(problem.message.contains(message), "{problem}");
            assert_eq!(problem.line, Some(2));
        }
    }

    #[test]
    fn paths_of_another_language_say_what_to_write() {
        for (paths, help) in [
            ("$.language", "write `paths(language)`"),
            ("id, $.address.city", "write `paths(id, address.city)`"),
            ("$", "to show all of the document, permit `read_plain`"),
        ] {
            let text = format!(
                "@mask(\"paths({paths})\")\nforbid(principal, action == Action::\"read_plain\", resource);"
            );
            let problem = check(&text).unwrap_err();
            assert!(problem.message.contains("begins with `$`"), "{problem}");
            assert_eq!(problem.help.as_deref(), Some(help), "{problem}");
        }
        assert!(mask_of("paths($ref.name)").is_some());
    }

    #[test]
    fn bad_masks_are_refused() {
        for value in [
            "",
            "last",
            "last(0)",
            "last(-1)",
            "last(x)",
            "last(70000)",
            "hash()",
            "hash(a b)",
            "email(x)",
            "date(week)",
            "bucket(1)",
            "bucket(-5)",
            "first(0)",
            "fixed(\\\"a)",
        ] {
            let text = format!(
                "@mask(\"{value}\")\nforbid(principal, action == Action::\"read_plain\", resource);"
            );
            let problem = check(&text).unwrap_err();
            assert!(problem.message.ends_with("is not a mask"), "{problem}");
            assert_eq!(problem.line, Some(1));
        }
    }

    #[test]
    fn masks_belong_to_the_policies_that_use_them() {
        for scope in [
            "permit(principal, action == Action::\"read_plain\", resource)",
            "permit(principal, action in Action::\"read\", resource)",
            "permit(principal, action, resource)",
            "forbid(principal, action, resource)",
            "forbid(principal, action in Action::\"read\", resource)",
            "forbid(principal, action == Action::\"select\", resource)",
        ] {
            let problem = check(&format!("@mask(\"null\") {scope};")).unwrap_err();
            assert!(
                problem.message.starts_with("`@mask` has no effect here"),
                "{problem}"
            );
        }
        let permit =
            "@mask(\"null\") permit(principal, action in [Action::\"read_masked\"], resource);";
        assert_eq!(check(permit).unwrap().mask, Some(Mask::Null));
    }

    #[test]
    fn max_rows_are_positive() {
        let select = "permit(principal, action == Action::\"select\", resource);";
        assert_eq!(
            check(&format!("@max_rows(\"100\") {select}"))
                .unwrap()
                .caps
                .rows,
            Some(100)
        );
        for bad in ["0", "-1", "many", "", "else refuse", "5 else hide"] {
            assert!(
                check(&format!("@max_rows(\"{bad}\") {select}")).is_err(),
                "{bad}"
            );
        }
        let refusing = check(&format!("@max_rows(\"20 else refuse\") {select}")).unwrap();
        assert_eq!(refusing.caps.rows_or_refusal, Some(20));
        let change = "permit(principal, action == Action::\"update\", resource);";
        let problem = check(&format!("@max_rows(\"20 else refuse\") {change}")).unwrap_err();
        assert_eq!(problem.message, "`else refuse` has no effect here");
        let forbid = "forbid(principal, action == Action::\"select\", resource);";
        assert!(check(&format!("@max_rows(\"1\") {forbid}")).is_err());
    }

    #[test]
    fn max_times_are_positive_and_have_a_unit() {
        let select = "permit(principal, action == Action::\"select\", resource);";
        for (written, milliseconds) in [("5s", 5000), ("250ms", 250), (" 1 s ", 1000)] {
            let read = check(&format!("@max_time(\"{written}\") {select}")).unwrap();
            assert_eq!(read.caps.time_ms, Some(milliseconds));
        }
        for bad in ["5", "0s", "-1s", "s", "1.5s", "5m", "99999999999999999999s"] {
            let problem = check(&format!("@max_time(\"{bad}\") {select}")).unwrap_err();
            assert!(problem.message.ends_with("is not a time"), "{problem}");
        }
        let discover = "permit(principal, action == Action::\"discover\", resource);";
        assert!(check(&format!("@max_time(\"5s\") {discover}")).is_err());
    }

    #[test]
    fn unknown_annotations_are_refused_with_a_hint() {
        let problem =
            check("@id(\"a\")\n@maks(\"null\")\nforbid(principal, action, resource);").unwrap_err();
        assert_eq!(problem.help.as_deref(), Some("did you mean `@mask`?"));
        assert_eq!((problem.line, problem.column), (Some(2), Some(1)));
        for (text, message) in [
            (
                "@approval(\"required\") forbid(principal, action, resource);",
                "no effect on a forbid",
            ),
            (
                "@approval(\"please\") permit(principal, action, resource);",
                "is no approval",
            ),
        ] {
            let problem = check(text).unwrap_err();
            assert!(problem.message.contains(message), "{problem}");
        }
    }
}
