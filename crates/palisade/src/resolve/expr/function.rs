//! Calls: of functions, aggregates and windows.

use sqlparser::ast::{
    CastKind, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, WindowFrame, WindowFrameBound, WindowSpec, WindowType,
};

use crate::resolve::{
    Mode, Resolver,
    expr::{
        ExprContext,
        operand_class::{OperandClass, Operands},
        other_engines::find_counterpart,
    },
    query::{Ctes, terms::TermNames},
    refuse_unsupported,
    scope::Scope,
};
use crate::{
    access::Usage,
    catalog::{
        ColumnId,
        functions::{FunctionDef, Safety},
    },
    code::Code,
    dialect::Dialect,
    did_you_mean,
    rejection::Rejection,
    syntax::{self, decode},
};

/// What a name in a call can mean: all that the engine may choose from.
pub(in crate::resolve) struct Called<'a> {
    pub(in crate::resolve) candidates: Vec<&'a FunctionDef>,
}

impl Called<'_> {
    fn is_over_rows(&self, args: Option<usize>) -> bool {
        self.candidates
            .iter()
            .any(|def| def.kinds.is_over_rows(args))
    }
}

impl<'a> Resolver<'a> {
    /// Every function that `name` with these arguments can mean; each is counted as called. Which of
    /// several the engine takes depends on types; all that it may take must be permitted. Where all are of one
    /// schema the name gets it.
    pub(in crate::resolve) fn resolve_function(
        &mut self,
        name: &mut ObjectName,
        args: Option<&[OperandClass]>,
    ) -> Result<Called<'a>, Rejection> {
        let dialect = self.catalog.dialect();
        let (schema, ident) = match name.0.as_slice() {
            [ObjectNamePart::Identifier(ident)] => (None, ident),
            [
                ObjectNamePart::Identifier(schema),
                ObjectNamePart::Identifier(ident),
            ] if dialect != Dialect::Sqlite => (Some(self.table_key(schema)), ident),
            _ => return Err(unknown(&name.to_string(), None)),
        };
        let key = self.key(ident);
        let mut candidates: Vec<&'a FunctionDef> = self
            .catalog
            .functions_named(&key)
            .filter(|def| self.is_reachable(def, schema.as_deref()))
            .filter(|def| !def.kinds.procedure || def.kinds.scalar)
            .collect();
        if candidates.is_empty() {
            return Err(self.unknown_function(&decode(ident), &key));
        }
        // In PostgreSQL's own definitions of views, its own functions need no schema.
        if dialect == Dialect::Postgres && schema.is_none() && self.is_below() {
            let own = |def: &&FunctionDef| {
                def.schema
                    .as_deref()
                    .is_none_or(|schema| schema == "pg_catalog")
            };
            if candidates.iter().any(own) {
                candidates.retain(own);
            }
        }
        if let Some(operands) = args {
            let args = operands.len();
            let few = candidates.clone();
            candidates.retain(|def| def.takes(args));
            // A form of its own stands for the name.
            let special = format!("/{args}");
            if candidates.iter().any(|def| def.uid.ends_with(&special)) {
                candidates.retain(|def| def.uid.ends_with(&special));
            }
            if candidates.is_empty() {
                let shown = few.first().map_or(&*key, |def| def.name.as_str());
                return Err(Rejection::new(
                    Code::SyntaxInvalid,
                    format!("`{shown}` does not take {args} arguments"),
                ));
            }
            // What the arguments' types rule out is left out, as long as something is left to call.
            if candidates.iter().any(|def| may_take(def, operands)) {
                candidates.retain(|def| may_take(def, operands));
            }
        }
        for def in &candidates {
            self.access.functions.insert(def.uid.clone());
            self.user_types.has_own_calls |= def.safety == Safety::Unknown;
        }
        if key == "nullif" {
            let operands = match args {
                Some([one, other]) => Operands::Binary(*one, *other),
                Some(_) | None => Operands::unknown(),
            };
            self.user_operator("=", &operands);
        }
        self.spell(name, &candidates);
        Ok(Called { candidates })
    }

    /// The refusal of a function's name, with what stands in its place on this engine, or the nearest of the engine's own names. Which
    /// functions a database has besides is not told.
    fn unknown_function(&self, shown: &str, key: &str) -> Rejection {
        let counterpart = find_counterpart(key, self.catalog.dialect());
        let advice = match counterpart {
            Some(text) => Some(format!(" on this engine: write {text}")),
            None => {
                let own = self.catalog.every_function().filter(|def| {
                    !def.safety.needs_named_permit()
                        && def.schema.as_deref().is_none_or(|s| s == "pg_catalog")
                });
                let near = did_you_mean::closest(key, own.map(|def| def.name.as_str()));
                near.map(|name| format!("; did you mean `{name}`?"))
            }
        };
        unknown(shown, advice)
    }

    /// Whether a call that names `schema`, or none, can reach `def`.
    pub(in crate::resolve) fn is_reachable(&self, def: &FunctionDef, schema: Option<&str>) -> bool {
        match (self.catalog.dialect(), schema, def.schema.as_deref()) {
            (Dialect::Sqlite, None, own) => own.is_none(),
            (Dialect::Sqlite, Some(_), _) => false,
            (Dialect::Postgres | Dialect::Mysql, Some(schema), Some(own)) => own == schema,
            (Dialect::Postgres | Dialect::Mysql, Some(_), None) => false,
            (Dialect::Postgres | Dialect::Mysql, None, None) => true,
            (Dialect::Postgres, None, Some(own)) => {
                own == "pg_catalog" || self.catalog.search_path().iter().any(|s| s == own)
            }
            (Dialect::Mysql, None, Some(own)) => {
                self.catalog.search_path().iter().any(|s| s == own)
            }
        }
    }

    fn is_below(&self) -> bool {
        matches!(self.mode, Mode::View { within: _ })
    }

    /// Writes the name as it cannot be misread: with its schema, if there is one.
    fn spell(&self, name: &mut ObjectName, candidates: &[&FunctionDef]) {
        let Some((first, rest)) = candidates.split_first() else {
            return;
        };
        if rest.iter().any(|def| def.schema != first.schema) {
            // PostgreSQL chooses by types; the search path is pinned.
            return;
        }
        let parts = match (self.catalog.dialect(), &first.schema) {
            (Dialect::Sqlite | Dialect::Mysql, None) => vec![Ident::new(&first.name)],
            // What the grammar makes a call of is a keyword.
            (Dialect::Postgres, None) => return,
            (Dialect::Postgres, Some(schema)) if schema == "pg_catalog" => {
                vec![Ident::new(schema), plain_or_quoted(self, &first.name)]
            }
            (Dialect::Sqlite | Dialect::Postgres | Dialect::Mysql, Some(schema)) => {
                vec![self.encode(schema), self.encode(&first.name)]
            }
        };
        name.0 = parts.into_iter().map(ObjectNamePart::Identifier).collect();
    }

    /// `tsquery('a & b')`: on PostgreSQL a type's name called with one value casts it, where no function
    /// is called so.
    pub(in crate::resolve) fn type_call(&self, function: &Function) -> Option<Expr> {
        if self.catalog.dialect() != Dialect::Postgres {
            return None;
        }
        let [ObjectNamePart::Identifier(ident)] = function.name.0.as_slice() else {
            return None;
        };
        let FunctionArguments::List(list) = &function.args else {
            return None;
        };
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] = list.args.as_slice() else {
            return None;
        };
        let key = self.key(ident);
        let is_function = self
            .catalog
            .functions_named(&key)
            .any(|def| self.is_reachable(def, None));
        if is_function || !crate::resolve::expr::cast::is_own_type(&key) {
            return None;
        }
        Some(Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(value.clone()),
            data_type: syntax::data_type(&key, Dialect::Postgres)?,
            format: None,
        })
    }

    /// A call, as it stands in an expression.
    pub(in crate::resolve) fn call(
        &mut self,
        function: &mut Function,
        at: &ExprContext<'a, '_, '_>,
        out: &mut Vec<ColumnId>,
    ) -> Result<(), Rejection> {
        let is_over_rows = self.is_over_rows(function);
        self.within_call(is_over_rows, |resolver| {
            resolver.function(function, at, out)
        })?;
        self.untag_call(function, at.scope)
    }

    fn function(
        &mut self,
        function: &mut Function,
        at: &ExprContext<'a, '_, '_>,
        out: &mut Vec<ColumnId>,
    ) -> Result<(), Rejection> {
        let dialect = self.catalog.dialect();
        let Function {
            name,
            uses_odbc_syntax,
            parameters,
            args,
            within_group,
            filter,
            null_treatment,
            over,
        } = function;
        if *uses_odbc_syntax {
            return Err(refuse_unsupported("{fn …}"));
        }
        if self.proposed_value(name, args, at, out)? {
            return Ok(());
        }
        if !matches!(parameters, FunctionArguments::None) {
            return Err(refuse_unsupported("a parametric function"));
        }
        if null_treatment.is_some() && dialect != Dialect::Mysql {
            return Err(refuse_unsupported("IGNORE or RESPECT NULLS"));
        }
        let count = match args {
            FunctionArguments::None => None,
            // `ARRAY(SELECT …)` is no call.
            FunctionArguments::Subquery(query)
                if dialect == Dialect::Postgres && is_array(name) && over.is_none() =>
            {
                return self.subquery(query, at, out).map(|_| ());
            }
            FunctionArguments::Subquery(_) => {
                return Err(refuse_unsupported("a bare subquery argument"));
            }
            FunctionArguments::List(list) => Some(list.args.len()),
        };
        let operands = match &*args {
            FunctionArguments::List(list) => {
                Some(self.argument_operands(name, &list.args, at.scope))
            }
            FunctionArguments::None | FunctionArguments::Subquery(_) => None,
        };
        if dialect == Dialect::Postgres && count == Some(0) {
            refuse_empty_parentheses(name)?;
        }
        let called = self.resolve_function(name, operands.as_deref())?;
        if count.is_none() && !called.candidates.iter().any(|def| def.kinds.niladic) {
            return Err(not_this_form(&called));
        }
        if count.is_some()
            && dialect == Dialect::Sqlite
            && called.candidates.iter().all(|def| def.kinds.niladic)
        {
            return Err(not_this_form(&called));
        }
        if dialect != Dialect::Postgres && called.candidates.iter().any(|def| def.kinds.table) {
            return Err(Rejection::new(
                Code::FunctionUnknown,
                format!("`{name}` is a table function; it stands in FROM"),
            ));
        }
        let before = out.len();
        if let FunctionArguments::List(list) = args {
            self.arguments(list, &called, at, out)?;
            // `nullif(a, b)` is `CASE WHEN a = b THEN NULL ELSE a END`.
            if called.candidates.iter().any(|def| def.name == "nullif") {
                let args = list.args.iter_mut().filter_map(|arg| match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => Some(arg),
                    _ => None,
                });
                self.untag_compared(&mut args.collect::<Vec<_>>(), at.scope)?;
            }
        }
        if called.is_over_rows(count) {
            for column in out.get(before..).unwrap_or_default() {
                self.touch(*column, Usage::Aggregate);
            }
        }
        if !within_group.is_empty() {
            // On MariaDB they are computed over windows alone, and MySQL has none of them
            // (<https://mariadb.com/kb/en/percentile_cont/>).
            let ordered = called.candidates.iter().all(|def| def.kinds.ordered);
            if dialect != Dialect::Postgres && !(ordered && over.is_some()) {
                return Err(refuse_unsupported(
                    "WITHIN GROUP without OVER, or of this function,",
                ));
            }
            let names = TermNames::Expressions;
            let ordered = self.order_terms(within_group, names, at.scope, at.ctes)?;
            // It is of these values that it is computed: `percentile_disc` and `mode` give one of them.
            for column in &ordered {
                self.touch(*column, at.usage);
                self.touch(*column, Usage::Aggregate);
            }
            out.extend(ordered);
        }
        let aggregate = called.is_over_rows(count);
        if !aggregate && (filter.is_some() || over.is_some()) {
            return Err(Rejection::new(
                Code::SyntaxInvalid,
                format!("`{name}` is not an aggregate: it takes neither FILTER nor OVER"),
            ));
        }
        if let Some(filter) = filter {
            let place = ExprContext {
                usage: Usage::Filter,
                ..*at
            };
            self.walk(filter, &place, out)?;
        }
        match over {
            None => Ok(()),
            Some(WindowType::NamedWindow(name)) => {
                self.normalise(name);
                // MariaDB sorts a list of all calls over windows, by name or not, in a time that grows with its square.
                self.count_window(0)
            }
            Some(WindowType::WindowSpec(spec)) => {
                out.extend(self.window(spec, at.scope, at.ctes)?);
                Ok(())
            }
        }
    }

    /// A window; its columns.
    pub(in crate::resolve) fn window(
        &mut self,
        spec: &mut WindowSpec,
        scope: &Scope<'a, '_>,
        ctes: Ctes<'_>,
    ) -> Result<Vec<ColumnId>, Rejection> {
        let WindowSpec {
            window_name,
            partition_by,
            order_by,
            window_frame,
        } = spec;
        if let Some(name) = window_name
            && !syntax::is_exclusion(name)
        {
            self.normalise(name);
        }
        self.count_window(partition_by.len() + order_by.len())?;
        let mut columns = Vec::new();
        for expr in partition_by {
            self.note_window_name(expr, Usage::Group);
            columns.extend(self.expr(expr, scope, ctes, Usage::Group)?);
        }
        for term in order_by.iter() {
            self.note_window_name(&term.expr, Usage::Order);
        }
        columns.extend(self.order_terms(order_by, TermNames::Expressions, scope, ctes)?);
        if let Some(WindowFrame {
            units: _,
            start_bound,
            end_bound,
        }) = window_frame
        {
            for bound in [Some(start_bound), end_bound.as_mut()]
                .into_iter()
                .flatten()
            {
                match bound {
                    WindowFrameBound::CurrentRow => {}
                    WindowFrameBound::Preceding(expr) | WindowFrameBound::Following(expr) => {
                        if let Some(expr) = expr {
                            self.expr(expr, scope, ctes, Usage::Order)?;
                        }
                    }
                }
            }
        }
        Ok(columns)
    }

    /// Counts the engine's own function `name`, which the grammar calls.
    pub(in crate::resolve) fn calls(&mut self, name: &str) {
        let dialect = self.catalog.dialect();
        let uid = match dialect {
            Dialect::Sqlite | Dialect::Mysql => name.to_owned(),
            Dialect::Postgres => format!("pg_catalog.{name}"),
        };
        self.access.functions.insert(uid);
    }
}

/// Refuses PostgreSQL's keywords that call with parentheses behind them, as other engines write them
/// (<https://www.postgresql.org/docs/current/functions-datetime.html#FUNCTIONS-DATETIME-CURRENT>).
fn refuse_empty_parentheses(name: &ObjectName) -> Result<(), Rejection> {
    let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else {
        return Ok(());
    };
    let word = ident.value.to_ascii_lowercase();
    let is_bare = matches!(
        word.as_str(),
        "current_catalog"
            | "current_date"
            | "current_role"
            | "current_time"
            | "current_timestamp"
            | "current_user"
            | "localtime"
            | "localtimestamp"
            | "session_user"
            | "system_user"
            | "user"
    );
    if ident.quote_style.is_none() && is_bare {
        let message = format!("`{word}` is called without parentheses: write {word}");
        return Err(Rejection::new(Code::SyntaxInvalid, message));
    }
    Ok(())
}

/// Whether the engine may choose `def` for a call with these arguments.
fn may_take(def: &FunctionDef, args: &[OperandClass]) -> bool {
    def.parameters.is_empty()
        || def.parameters.iter().any(|overload| {
            let known = args.iter().zip(overload);
            args.len() <= overload.len() && known.into_iter().all(|(arg, def)| arg.may_be(def))
        })
}

fn is_array(name: &ObjectName) -> bool {
    matches!(name.0.as_slice(), [ObjectNamePart::Identifier(ident)]
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("array"))
}

/// A name that needs no quotes stays readable.
pub(in crate::resolve) fn plain_or_quoted(resolver: &Resolver<'_>, name: &str) -> Ident {
    if crate::ident::is_plain(name) {
        Ident::new(name)
    } else {
        resolver.encode(name)
    }
}

pub(in crate::resolve) fn not_this_form(called: &Called<'_>) -> Rejection {
    let name = called.candidates.first().map_or("", |def| &def.name);
    Rejection::new(
        Code::SyntaxInvalid,
        format!("`{name}` is not called in this form"),
    )
}

fn unknown(name: &str, advice: Option<String>) -> Rejection {
    let mut message = format!("there is no function `{name}`");
    if let Some(advice) = advice {
        message.push_str(&advice);
    }
    Rejection::new(Code::FunctionUnknown, message)
}
