//! What the session's account was granted.

use mysql_async::Conn;

use crate::{
    account::current,
    introspect::{IntrospectError, query, text},
    settings::{identifier, literal},
};

/// One line of SHOW GRANTS.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// In capitals, without columns.
    pub(crate) privileges: Vec<String>,
    /// Whether one of them is of the whole object, and not of some columns.
    is_whole: bool,
    /// What they are on; nothing for a role.
    pub(crate) object: Option<String>,
    pub(crate) can_grant: bool,
    /// Whether an active role has it, or may have: servers mix what it gives with the account's own.
    pub(crate) by_role: bool,
    /// Those of its privileges that are not of some columns alone.
    of_all_columns: Vec<String>,
}

/// An account and what it was granted.
pub(crate) struct Account {
    /// As the server spells it.
    pub(crate) name: String,
    pub(crate) grants: Vec<Grant>,
    /// Whether something is taken out of what is granted everywhere (MySQL's `partial_revokes`).
    has_revokes: bool,
}

#[cfg(test)]
impl Grant {
    /// These privileges on the whole of `object`.
    pub(crate) fn list_privileges(privileges: &[&str], object: Option<&str>) -> Self {
        Self {
            privileges: privileges.iter().map(|one| (*one).to_owned()).collect(),
            of_all_columns: privileges.iter().map(|one| (*one).to_owned()).collect(),
            is_whole: true,
            object: object.map(str::to_owned),
            can_grant: false,
            by_role: false,
        }
    }
}

impl Account {
    /// Reads that of the session.
    pub(crate) async fn read(conn: &mut Conn) -> Result<Self, IntrospectError> {
        let (name, host) = current(conn).await?;
        let name = format!("{}@{}", literal(&name), literal(&host));
        // Without a name, what active roles give is shown too.
        let own = lines(conn, format!("SHOW GRANTS FOR {name}")).await?;
        let all = lines(conn, "SHOW GRANTS".to_owned()).await?;
        let grants = all.iter().filter_map(|line| {
            let by_role = !own.contains(line);
            parse_grant(line).map(|grant| Grant { by_role, ..grant })
        });
        Ok(Self {
            grants: grants.collect(),
            has_revokes: all.iter().any(|line| line.starts_with("REVOKE ")),
            name,
        })
    }

    /// Whether it certainly has `privilege` on the whole of a table: by a role or a pattern of names it may have it without.
    pub(crate) fn may(&self, schema: &str, table: &str, privilege: &str) -> bool {
        let held = |held: &String| held == privilege || held == "ALL PRIVILEGES";
        self.grants_on(schema, table)
            .any(|grant| grant.of_all_columns.iter().any(held))
    }

    /// Whether the server certainly tells it of every column of a table: it does to whoever has any right on the table as a whole.
    pub(crate) fn sees_every_column(&self, schema: &str, table: &str) -> bool {
        self.grants_on(schema, table).any(|grant| grant.is_whole)
    }

    /// What is certainly granted on a table.
    fn grants_on(&self, schema: &str, table: &str) -> impl Iterator<Item = &Grant> {
        let database = identifier(schema);
        let escaped = database.replace('_', "\\_").replace('%', "\\%");
        let certain = [
            format!("{database}.*"),
            format!("{escaped}.*"),
            format!("{database}.{}", identifier(table)),
        ];
        self.grants.iter().filter(move |grant| {
            grant.object.as_deref().is_some_and(|object| {
                certain.iter().any(|name| name == object) || object == "*.*" && !self.has_revokes
            })
        })
    }
}

async fn lines(conn: &mut Conn, sql: String) -> Result<Vec<String>, IntrospectError> {
    let rows = query(conn, sql).await?;
    rows.iter().map(|row| text(row, 0)).collect()
}

/// Reads `GRANT privilege (columns), … ON object TO …` and `GRANT role, … TO …`.
fn parse_grant(line: &str) -> Option<Grant> {
    // A partial revoke takes away; a default role is granted in a line of its own.
    let rest = line.strip_prefix("GRANT ")?;
    let words = find_outside_quotes(rest, &[" ON ", " TO "]);
    let (privileges, after, is_role) = match words {
        Some((at, " ON ")) => (rest.get(..at)?, rest.get(at + 4..)?, false),
        Some((at, _)) => (rest.get(..at)?, rest.get(at..)?, true),
        None => return None,
    };
    let object = match find_outside_quotes(after, &[" TO "]) {
        Some((at, _)) if !is_role => Some(after.get(..at)?.to_owned()),
        Some(_) | None => None,
    };
    let (mut list, mut of_all_columns) = (Vec::new(), Vec::new());
    let mut is_whole = false;
    let mut left = privileges;
    while !left.is_empty() {
        let (one, more) = match find_outside_quotes(left, &[", "]) {
            Some((at, _)) => (left.get(..at)?, left.get(at + 2..)?),
            None => (left, ""),
        };
        let name = one.split(" (").next().unwrap_or(one).trim();
        let says_something = !["USAGE", "SHOW VIEW", "TRIGGER", "CREATE VIEW"].contains(&name);
        let is_of_all = name == one.trim();
        is_whole |= is_of_all && says_something;
        let name = if is_role {
            name.to_owned()
        } else {
            name.to_ascii_uppercase()
        };
        of_all_columns.extend(is_of_all.then(|| name.clone()));
        list.push(name);
        left = more;
    }
    Some(Grant {
        privileges: list,
        of_all_columns,
        is_whole,
        object,
        can_grant: after.ends_with("WITH GRANT OPTION"),
        by_role: false,
    })
}

/// Where the first of `words` stands outside of quotation marks and parentheses.
fn find_outside_quotes<'w>(text: &str, words: &[&'w str]) -> Option<(usize, &'w str)> {
    let (mut quote, mut depth) = (None, 0_u32);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '`' | '\'' | '"') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, _) if depth == 0 => {
                let rest = text.get(at..)?;
                if let Some(word) = words.iter().find(|word| rest.starts_with(**word)) {
                    return Some((at, word));
                }
            }
            (None, _) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_may_what_is_certainly_granted_on_a_table() {
        let account = |grant: Grant, has_revokes| Account {
            name: String::new(),
            grants: vec![grant],
            has_revokes,
        };
        for (privileges, object, has_revokes, expected) in [
            (&["SELECT"][..], Some("`a_b`.`t`"), false, true),
            (&["SELECT"], Some("`a_b`.*"), false, true),
            (&["SELECT"], Some("`a\\_b`.*"), false, true),
            (&["INSERT", "SELECT"], Some("`a_b`.*"), false, true),
            (&["ALL PRIVILEGES"], Some("`a_b`.*"), false, true),
            (&["INSERT"], Some("`a_b`.*"), false, false),
            (&["SELECT"], Some("`a_b`.`u`"), false, false),
            (&["SELECT"], Some("`a%`.*"), false, false),
            (&["SELECT"], Some("*.*"), false, true),
            // Something may have been taken out of it.
            (&["SELECT"], Some("*.*"), true, false),
            (&["SELECT"], Some("`a_b`.*"), true, true),
            (&["SELECT"], None, false, false),
        ] {
            let account = account(Grant::list_privileges(privileges, object), has_revokes);
            let found = account.may("a_b", "t", "SELECT");
            assert_eq!(found, expected, "{privileges:?} {object:?} {has_revokes}");
        }
        let line = "GRANT SELECT (`id`), INSERT (`id`), INSERT, DELETE ON `a_b`.`t` TO `x`@`%`";
        let some = account(parse_grant(line).unwrap(), false);
        assert!(!some.may("a_b", "t", "SELECT"));
        assert!(some.may("a_b", "t", "INSERT") && some.may("a_b", "t", "DELETE"));
        let whole = Grant::list_privileges(&["SELECT"], Some("`a_b`.`t`"));
        let some = Grant {
            is_whole: false,
            ..Grant::list_privileges(&["SELECT"], Some("`a_b`.`t`"))
        };
        assert!(account(whole, false).sees_every_column("a_b", "t"));
        assert!(!account(some, false).sees_every_column("a_b", "t"));
    }

    #[test]
    fn words_are_found_outside_of_quotes_and_parentheses() {
        for (text, expected) in [
            ("a ON b", Some(1)),
            ("`a ON b` ON c", Some(8)),
            ("'a ON b' ON c", Some(8)),
            ("(a ON b) ON c", Some(8)),
            ("((a) ON b) ON c", Some(10)),
            ("`a'b ON c` ON d", Some(10)),
            (") ON a", Some(1)),
            ("`a ON b`", None),
            ("aONb", None),
        ] {
            let found = find_outside_quotes(text, &[" ON "]).map(|(at, _)| at);
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn a_right_on_columns_is_none_on_the_whole() {
        for (line, expected) in [
            (
                "GRANT SELECT (`a`), INSERT (`b`, `c`) ON `d`.`t` TO `u`@`%`",
                false,
            ),
            ("GRANT SELECT (`a`), REFERENCES ON `d`.`t` TO `u`@`%`", true),
            ("GRANT USAGE ON *.* TO `u`@`%`", false),
            ("GRANT ALL PRIVILEGES ON `d`.* TO `u`@`%`", true),
        ] {
            assert_eq!(
                parse_grant(line).map(|grant| grant.is_whole),
                Some(expected),
                "{line}"
            );
        }
    }

    #[test]
    fn grants_are_read() {
        let check = |line: &str, privileges: &[&str], object: Option<&str>, can_grant: bool| {
            let grant = parse_grant(line).unwrap();
            assert_eq!(grant.privileges, privileges, "{line}");
            assert_eq!(grant.object.as_deref(), object, "{line}");
            assert_eq!(
                (grant.can_grant, grant.by_role),
                (can_grant, false),
                "{line}"
            );
        };
        check(
            "GRANT SELECT, INSERT (`a`, `b, ON x`) ON `d`.`t` TO `u`@`%` WITH GRANT OPTION",
            &["SELECT", "INSERT"],
            Some("`d`.`t`"),
            true,
        );
        check(
            "GRANT USAGE ON *.* TO `u`@`%` IDENTIFIED BY PASSWORD '*A'",
            &["USAGE"],
            Some("*.*"),
            false,
        );
        check(
            "GRANT `r`@`%`,`s`@`%` TO `u`@`%`",
            &["`r`@`%`,`s`@`%`"],
            None,
            false,
        );
        check("GRANT `r` TO `u`@`%`", &["`r`"], None, false);
        assert_eq!(parse_grant("SET DEFAULT ROLE `r` FOR `u`@`%`"), None);
    }
}
