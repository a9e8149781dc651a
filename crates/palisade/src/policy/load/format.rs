//! Policies laid out by Cedar's own formatter.

use cedar_policy_formatter::{Config, policies_str_to_pretty};

use crate::policy::{
    load::{
        diagnostic::{PolicyErrors, PolicyProblem, Source},
        source,
    },
    sources::PolicyFile,
};

/// The text of `file` as Cedar's formatter lays it out, in 80 columns. What it says stays: every policy, every annotation
/// and every comment. A text of comments alone is left as it is.
///
/// # Errors
/// If the text does not parse, with the place of each mistake; or if the formatter would lose a comment.
///
/// ```
/// use palisade::policy::{PolicyFile, format_policies};
///
/// let file = PolicyFile {
///     name: "base.cedar".to_owned(),
///     text: "permit(principal,action,resource); // all".to_owned(),
/// };
/// assert_eq!(
///     format_policies(&file).unwrap(),
///     "permit (principal, action, resource); // all\n"
/// );
/// ```
pub fn format_policies(file: &PolicyFile) -> Result<String, PolicyErrors> {
    let source = Source {
        name: &file.name,
        text: &file.text,
    };
    let mut problems = Vec::new();
    let policies = source::parse(source, &mut problems);
    if !problems.is_empty() {
        return Err(PolicyErrors::new(problems));
    }
    if policies.is_empty() {
        return Ok(file.text.clone());
    }
    // It compares the policies before and after by itself.
    let formatted = policies_str_to_pretty(&file.text, &Config::default())
        .map_err(|why| PolicyErrors::one(source.problem_of_file(format!("no layout: {why}"))))?;
    if let Some(lost) = find_lost(&file.text, &formatted) {
        let start = file.text.find(lost).unwrap_or_default();
        let problem = source.at(
            start..start + lost.len(),
            "the formatter loses this comment",
        );
        let help = "write it on a line of its own before the policy";
        return Err(PolicyErrors::one(problem.with_help(Some(help))));
    }
    Ok(formatted)
}

/// What does not parse in `file`, each with its place. Whether it means anything over a catalog is not looked at.
#[must_use]
pub fn find_syntax_errors(file: &PolicyFile) -> Vec<PolicyProblem> {
    let source = Source {
        name: &file.name,
        text: &file.text,
    };
    let mut problems = Vec::new();
    source::parse(source, &mut problems);
    problems
}

/// The first comment that `new` does not have in its place.
fn find_lost<'t>(old: &'t str, new: &str) -> Option<&'t str> {
    let mut kept = source::comments(new);
    source::comments(old).find(|comment| kept.next() != Some(comment))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn format(text: &str) -> Result<String, PolicyErrors> {
        format_policies(&PolicyFile {
            name: "a.cedar".to_owned(),
            text: text.to_owned(),
        })
    }

    #[test]
    fn comments_and_annotations_stay() {
        let text = "// first\n@id( \"a;b\" )@mask(\"last(4)\")\n// of the policy\nforbid(principal, // who\n action==Action::\"read_plain\",resource)// end\nwhen{/* no */true};";
        // Cedar knows `//` alone.
        assert!(format(text).is_err());
        let text = text.replace("/* no */", "");
        let formatted = format(&text).unwrap();
        for part in ["// first", "// of the policy", "// who", "// end"] {
            assert_eq!(formatted.matches(part).count(), 1, "{formatted}");
        }
        assert!(
            formatted.contains("@id(\"a;b\")\n@mask(\"last(4)\")\n"),
            "{formatted}"
        );
        assert_eq!(format(&formatted).unwrap(), formatted);
    }

    #[test]
    fn a_text_that_does_not_parse_is_told_with_its_line() {
        let problems = format(
            "permit(principal, action, resource);\n\nforbid(principal, action,\n  resorce);\n",
        );
        assert_eq!(problems.unwrap_err().problems()[0].line, Some(4));
    }

    #[test]
    fn each_policy_that_does_not_parse_is_told_with_its_place() {
        for (text, places) in [
            ("", &[][..]),
            ("permit(principal, action, resource);", &[]),
            // What a name means is not looked at.
            (
                "permit(principal, action, resource == Table::\"gone\");",
                &[],
            ),
            (
                "permit(principal, action, resource);\nforbid(principal, action,\n  resorce);\n",
                &[(3, 3)],
            ),
            (
                "permit(;\nforbid(principal, action, resource) when { 1 + };",
                &[(1, 8), (2, 48)],
            ),
        ] {
            let file = PolicyFile {
                name: "a.cedar".to_owned(),
                text: text.to_owned(),
            };
            let found = find_syntax_errors(&file);
            let found: Vec<_> = found
                .iter()
                .map(|problem| (problem.line.unwrap(), problem.column.unwrap()))
                .collect();
            assert_eq!(found, places, "{text}");
        }
    }

    #[test]
    fn a_lost_comment_is_noticed() {
        assert_eq!(find_lost("// a\nx // b\n", "// a\nx // b\n// c\n"), None);
        assert_eq!(find_lost("// a\nx // b\n", "// a\nx\n"), Some("// b"));
        assert_eq!(find_lost("// a\n// b\n", "// b\n// a\n"), Some("// a"));
    }

    #[test]
    fn comments_alone_stay_as_they_are() {
        for text in ["", "// nothing yet", "\n// nothing yet  \n\n"] {
            assert_eq!(format(text).unwrap(), text);
        }
    }
}
