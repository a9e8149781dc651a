//! Warnings that a comment silences: `// palisade:ignore CODE reason`, before or in the policy that it is about. In TOML files the
//! comment begins with `#`, and reaches to the next empty line.

use crate::policy::{
    load::diagnostic::{PolicyProblem, Source, probably},
    rule::Rule,
    sources::PolicySources,
};

const MARK: &str = "palisade:ignore";

/// An ignore, and the lines that it reaches, from 1.
struct Ignore {
    rule: Rule,
    file: String,
    first: u32,
    last: u32,
    place: PolicyProblem,
}

/// Takes away the warnings that comments silence. Adds those about the comments themselves; that one silences nothing only where
/// every rule was tried.
pub(in crate::policy) fn apply(
    sources: &PolicySources,
    warnings: &mut Vec<PolicyProblem>,
    every_rule_was_tried: Tried,
) {
    let (mut told, mut unused) = (Vec::new(), Vec::new());
    let mut ignores = Vec::new();
    let files = sources
        .policies
        .iter()
        .map(|file| (file.name.as_str(), file.text.as_str(), "//"));
    let others = [
        ("classification.toml", &sources.classification),
        ("schemas.toml", &sources.schemas),
        ("templates.toml", &sources.templates),
    ];
    let others = others
        .iter()
        .filter_map(|(name, text)| Some((*name, text.as_deref()?, "#")));
    for (name, text, comment) in files.chain(others) {
        read(&Source { name, text }, comment, &mut ignores, &mut told);
    }
    for ignore in ignores {
        let before = warnings.len();
        warnings.retain(|warning| {
            let line = warning.line.unwrap_or(0);
            let is_there =
                warning.file == ignore.file && (ignore.first..=ignore.last).contains(&line);
            !(is_there && warning.rule == Some(ignore.rule))
        });
        let was_tried = match every_rule_was_tried {
            Tried::Every => !ignore.rule.is_deep(),
            Tried::Deep => ignore.rule.is_deep(),
            Tried::Some => false,
        };
        if was_tried && warnings.len() == before {
            unused.push(ignore.place);
        }
    }
    match every_rule_was_tried {
        Tried::Every | Tried::Some => warnings.extend(told),
        // They were told of when the policies were loaded.
        Tried::Deep => {}
    }
    warnings.extend(unused);
}

/// Which rules were tried.
#[derive(Clone, Copy)]
pub(in crate::policy) enum Tried {
    /// All but those of a deep check.
    Every,
    Some,
    /// Those of a deep check.
    Deep,
}

fn read(
    source: &Source<'_>,
    comment: &str,
    ignores: &mut Vec<Ignore>,
    told: &mut Vec<PolicyProblem>,
) {
    let mark = format!("{comment} {MARK}");
    let mut offset = 0;
    for (number, line) in (1_u32..).zip(source.text.split_inclusive('\n')) {
        let begin = offset;
        offset += line.len();
        let Some(at) = line.find(&mark) else {
            continue;
        };
        let problem = |message: String, rule: Rule| {
            source
                .at(begin + at..begin + line.trim_end().len(), message)
                .of_rule(rule)
        };
        let said = line.get(at + mark.len()..).unwrap_or_default().trim();
        let (slug, reason) = said.split_once(char::is_whitespace).unwrap_or((said, ""));
        let Some(rule) = Rule::from_slug(slug) else {
            let slugs = Rule::ALL.iter().map(|rule| rule.slug());
            let hint = probably(slug, slugs).map(|close| format!("did you mean `{close}`?"));
            let message = format!("there is no rule `{slug}` to ignore");
            told.push(problem(message, Rule::IgnoreUnknown).with_help(hint));
            continue;
        };
        if reason.trim().is_empty() {
            let message = format!("why is `{slug}` ignored here? without a reason it is not");
            told.push(problem(message, Rule::IgnoreUnexplained));
            continue;
        }
        let rest = source.text.get(begin..).unwrap_or_default();
        ignores.push(Ignore {
            rule,
            file: source.name.to_owned(),
            first: number,
            last: number + count_lines(rest, comment),
            place: problem(
                format!("this ignores no warning of `{slug}`"),
                Rule::IgnoreUnused,
            ),
        });
    }
}

/// How many lines an ignore reaches beyond its own: to the end of its policy or entry.
fn count_lines(text: &str, comment: &str) -> u32 {
    let mut reached = 0;
    for (line, text) in (0_u32..).zip(text.lines()) {
        reached = line;
        let code = match text.split_once(comment) {
            Some((code, _)) => code,
            None => text,
        };
        let ends = match comment {
            "//" => code.trim_end().ends_with(';'),
            _ => line > 0 && text.trim().is_empty(),
        };
        if ends {
            break;
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::policy::sources::PolicyFile;

    /// What is marked of an ignore of a rule that does not exist, on the second line of `text`.
    #[test]
    fn an_ignore_is_marked_from_its_sign_to_the_end_of_the_line() {
        let written = "// palisade:ignore no-row Only names.";
        let text = format!("// é\npermit (principal, action, resource); {written}  \n");
        let source = Source {
            name: "base.cedar",
            text: &text,
        };
        let (mut ignores, mut told) = (Vec::new(), Vec::new());
        read(&source, "//", &mut ignores, &mut told);
        assert!(ignores.is_empty());
        let span = told.first().unwrap().span.unwrap();
        let marked = text.get(span.offset..span.offset + span.length);
        assert_eq!(marked, Some(written));
        assert_eq!(told.first().unwrap().line, Some(2));
    }

    #[test]
    fn an_ignore_silences_its_rule_in_its_own_lines_and_file() {
        let file = |name: &str, text: &str| PolicyFile {
            name: name.to_owned(),
            text: text.to_owned(),
        };
        let ignored = "// palisade:ignore no-rows They come tomorrow.\npermit (principal, action, resource);\npermit (principal, action, resource);\n";
        let sources = PolicySources {
            policies: vec![file("a.cedar", ignored), file("b.cedar", "\n\n\n")],
            ..PolicySources::default()
        };
        for (name, line, rule, is_silenced) in [
            ("a.cedar", Some(1), Rule::NoRows, true),
            ("a.cedar", Some(2), Rule::NoRows, true),
            ("a.cedar", Some(3), Rule::NoRows, false),
            ("a.cedar", Some(2), Rule::NeverTrue, false),
            ("a.cedar", None, Rule::NoRows, false),
            ("b.cedar", Some(2), Rule::NoRows, false),
        ] {
            let source = Source { name, text: "" };
            let problem = source.problem_of_file("odd").of_rule(rule);
            let mut warnings = vec![PolicyProblem { line, ..problem }];
            apply(&sources, &mut warnings, Tried::Every);
            let told: Vec<_> = warnings.iter().filter_map(|one| one.rule).collect();
            let expected = match is_silenced {
                true => Vec::new(),
                false => vec![rule, Rule::IgnoreUnused],
            };
            assert_eq!(told, expected, "{name} {line:?}");
        }
    }

    #[test]
    fn an_ignore_reaches_to_the_end_of_its_policy_or_entry() {
        for (text, comment, lines) in [
            ("// x\npermit (\n);\npermit ();", "//", 2),
            ("permit (); // x\npermit ();", "//", 0),
            ("// x;\npermit ();", "//", 1),
            ("# x\na = 1\n\nb = 1", "#", 2),
            ("a = 1 # x\nb = 1", "#", 1),
        ] {
            assert_eq!(count_lines(text, comment), lines, "{text}");
        }
    }
}
