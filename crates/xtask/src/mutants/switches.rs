//! Puts changes into a source text, each behind a switch: `crate::__changed(N)` says whether change N is wanted.

use std::{collections::BTreeMap, ops::Range};

use syn::{
    Arm, Block, Expr, ExprBinary, ExprStruct, ExprUnary, Signature,
    spanned::Spanned,
    visit::{self, Visit},
};

use super::list::{Kind, Mutant};
use crate::run::Result;

/// What stands at the end of each changed crate.
///
/// Without a wanted change, each thread tells once which switches it reaches: tests have threads of their names.
pub(super) const SWITCH: &str = r#"
/// Whether the change of this number is wanted.
#[doc(hidden)]
pub(crate) fn __changed(number: u32) -> bool {
    static WANTED: std::sync::OnceLock<Option<u32>> = std::sync::OnceLock::new();
    let read = || std::env::var("PALISADE_CHANGE").ok()?.parse().ok();
    match *WANTED.get_or_init(read) {
        Some(wanted) => wanted == number,
        None => {
            __tell_reached(number);
            false
        }
    }
}

fn __tell_reached(number: u32) {
    use std::{cell::RefCell, collections::HashSet, fs::File, io::Write, sync::{Mutex, OnceLock}};
    static TOLD: OnceLock<Option<Mutex<(File, HashSet<(String, u32)>)>>> = OnceLock::new();
    thread_local! {
        static SEEN: RefCell<HashSet<u32>> = RefCell::new(HashSet::new());
    }
    let open = || {
        let path = std::env::var_os("PALISADE_REACHED")?;
        let file = File::options().append(true).create(true).open(path).ok()?;
        Some(Mutex::new((file, HashSet::new())))
    };
    let Some(told) = TOLD.get_or_init(open) else { return };
    if !SEEN.try_with(|seen| seen.borrow_mut().insert(number)).unwrap_or(false) {
        return;
    }
    let name = std::thread::current().name().unwrap_or("?").to_owned();
    if let Ok(mut told) = told.lock() {
        let line = format!("{number}\t{name}\n");
        if told.1.insert((name, number)) {
            let _ = told.0.write_all(line.as_bytes());
        }
    }
}
"#;

/// A source text with its switches.
pub(super) struct Switched {
    pub(super) text: String,
    /// Where the text of each change stands.
    pub(super) changes: Vec<(u32, Range<usize>)>,
    /// Where the expressions stand that have changes; those changes.
    pub(super) around: Vec<(Vec<u32>, Range<usize>)>,
    /// Changes that no switch can make, each with the reason.
    pub(super) left_out: Vec<(u32, &'static str)>,
}

/// `source` with `changes`, each with its number.
pub(super) fn switch(source: &str, changes: &[(u32, &Mutant)]) -> Result<Switched> {
    let file = syn::parse_file(source).map_err(|error| error.to_string())?;
    let mut wanted = Wanted::new();
    for (number, mutant) in changes {
        let at = (mutant.kind, mutant.start.0, mutant.start.1);
        let text = mutant.place.replacement.as_str();
        wanted.entry(at).or_default().push((*number, text));
    }
    let mut finder = Finder {
        source,
        wanted,
        in_const: 0,
        edits: BTreeMap::new(),
        left_out: Vec::new(),
    };
    finder.visit_file(&file);
    let lost = finder.wanted.into_values().flatten();
    let mut left_out = finder.left_out;
    left_out.extend(lost.map(|(number, _)| (number, "its place was not found")));
    // What is put before something first, then outer ones before inner ones.
    let mut edits: Vec<Edit> = finder.edits.into_values().collect();
    edits.sort_by_key(|edit| {
        let Range { start, end } = edit.range;
        (start, !edit.inserts, std::cmp::Reverse(end))
    });
    let mut writer = Writer {
        source,
        out: String::new(),
        changes: Vec::new(),
        around: Vec::new(),
    };
    writer.write(0..source.len(), &edits);
    Ok(Switched {
        text: writer.out,
        changes: writer.changes,
        around: writer.around,
        left_out,
    })
}

/// A place of the source, and what may stand there instead.
struct Edit {
    range: Range<usize>,
    others: Vec<(u32, Vec<Part>)>,
    /// Whether it stands before what is there, and in place of nothing.
    inserts: bool,
}

/// A piece of what stands in another's place.
enum Part {
    Text(String),
    Source(Range<usize>),
}

/// What is wanted, by where it begins: kind, line and column. Each with its number, and what stands there instead.
type Wanted<'a> = BTreeMap<(Kind, usize, usize), Vec<(u32, &'a str)>>;

struct Finder<'a> {
    source: &'a str,
    wanted: Wanted<'a>,
    /// How many constants and `const` functions this is in.
    in_const: usize,
    edits: BTreeMap<(usize, usize), Edit>,
    left_out: Vec<(u32, &'static str)>,
}

impl<'a> Finder<'a> {
    /// Those that change what begins at `span`.
    fn take(&mut self, kind: Kind, span: proc_macro2::Span) -> Vec<(u32, &'a str)> {
        let start = span.start();
        let found = self.wanted.remove(&(kind, start.line, start.column + 1));
        let found = found.unwrap_or_default();
        if self.in_const == 0 {
            return found;
        }
        let reason = "constants are evaluated when they are compiled";
        (self.left_out).extend(found.iter().map(|(number, _)| (*number, reason)));
        Vec::new()
    }

    fn add(&mut self, range: Range<usize>, inserts: bool, other: (u32, Vec<Part>)) {
        let edit = self.edits.entry((range.start, range.end));
        let edit = edit.or_insert_with(|| Edit {
            range,
            others: Vec::new(),
            inserts,
        });
        edit.others.push(other);
    }

    fn change_body(&mut self, signature: &Signature, block: &Block) {
        let Some(first) = block.stmts.first() else {
            return;
        };
        let start = first.span().byte_range().start;
        for (number, text) in self.take(Kind::Body, first.span()) {
            if self.text(&signature.output.span()).contains("impl ") {
                (self.left_out).push((number, "the type that is returned has no name"));
                continue;
            }
            let text = format!("if crate::__changed({number}) {{ return {text}; }} ");
            self.add(start..start, true, (number, vec![Part::Text(text)]));
        }
    }

    fn text(&self, span: &proc_macro2::Span) -> &'a str {
        self.source.get(span.byte_range()).unwrap_or_default()
    }

    fn visit_function(&mut self, signature: &Signature, block: &Block, visit: impl Fn(&mut Self)) {
        let constant = usize::from(signature.constness.is_some());
        self.in_const += constant;
        self.change_body(signature, block);
        visit(self);
        self.in_const -= constant;
    }

    fn visit_constant(&mut self, visit: impl Fn(&mut Self)) {
        self.in_const += 1;
        visit(self);
        self.in_const -= 1;
    }
}

/// Whether `let` binds names in this condition.
fn binds(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => binds(&binary.left) || binds(&binary.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.visit_function(&item.sig, &item.block, |v| visit::visit_item_fn(v, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        let visit = |v: &mut Self| visit::visit_impl_item_fn(v, item);
        self.visit_function(&item.sig, &item.block, visit);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        match &item.default {
            Some(block) => {
                let visit = |v: &mut Self| visit::visit_trait_item_fn(v, item);
                self.visit_function(&item.sig, block, visit);
            }
            None => visit::visit_trait_item_fn(self, item),
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.visit_constant(|v| visit::visit_item_const(v, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.visit_constant(|v| visit::visit_item_static(v, item));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.visit_constant(|v| visit::visit_impl_item_const(v, item));
    }

    fn visit_expr_binary(&mut self, expr: &'ast ExprBinary) {
        let left = expr.left.span().byte_range();
        let right = expr.right.span().byte_range();
        for (number, operator) in self.take(Kind::Binary, expr.op.span()) {
            if binds(&expr.left) || binds(&expr.right) {
                (self.left_out).push((number, "`let` binds names for what follows it"));
                continue;
            }
            let parts = vec![
                Part::Source(left.clone()),
                Part::Text(format!(" {operator} ")),
                Part::Source(right.clone()),
            ];
            self.add(left.start..right.end, false, (number, parts));
        }
        visit::visit_expr_binary(self, expr);
    }

    fn visit_expr_unary(&mut self, expr: &'ast ExprUnary) {
        let operand = expr.expr.span().byte_range();
        let start = expr.op.span().byte_range().start;
        for (number, _) in self.take(Kind::Unary, expr.op.span()) {
            let parts = vec![Part::Source(operand.clone())];
            self.add(start..operand.end, false, (number, parts));
        }
        visit::visit_expr_unary(self, expr);
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        let end = arm.pat.span().byte_range().end;
        for (number, _) in self.take(Kind::Arm, arm.span()) {
            let text = format!(" if !crate::__changed({number}) ");
            self.add(end..end, true, (number, vec![Part::Text(text)]));
        }
        if let Some((_, guard)) = &arm.guard {
            for (number, text) in self.take(Kind::Guard, guard.span()) {
                let parts = vec![Part::Text(text.to_owned())];
                self.add(guard.span().byte_range(), false, (number, parts));
            }
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, expr: &'ast ExprStruct) {
        if let Some(rest) = &expr.rest {
            let path = self.text(&expr.path.span());
            for field in &expr.fields {
                for (number, _) in self.take(Kind::Field, field.span()) {
                    if field.colon_token.is_none() {
                        (self.left_out).push((number, "the field has its variable's name"));
                        continue;
                    }
                    let name = self.text(&field.member.span());
                    let parts = vec![
                        Part::Text(format!("{{ let base: {path} = ")),
                        Part::Source(rest.span().byte_range()),
                        Part::Text(format!("; base.{name} }}")),
                    ];
                    let range = field.expr.span().byte_range();
                    self.add(range, false, (number, parts));
                }
            }
        }
        visit::visit_expr_struct(self, expr);
    }
}

struct Writer<'a> {
    source: &'a str,
    out: String,
    changes: Vec<(u32, Range<usize>)>,
    around: Vec<(Vec<u32>, Range<usize>)>,
}

impl Writer<'_> {
    /// The source of `range` with those of `edits` that stand in it. Outer ones come first in `edits`.
    fn write(&mut self, range: Range<usize>, edits: &[Edit]) {
        let mut at = range.start;
        for (index, edit) in edits.iter().enumerate() {
            // What an outer one has written already, and what stands elsewhere.
            if edit.range.start < at || edit.range.end > range.end {
                continue;
            }
            self.copy(at..edit.range.start);
            at = edit.range.end;
            let inner = edits.get(index + 1..).unwrap_or_default();
            self.write_edit(edit, inner);
        }
        self.copy(at..range.end);
    }

    fn write_edit(&mut self, edit: &Edit, inner: &[Edit]) {
        let start = self.out.len();
        if !edit.inserts {
            self.out.push('(');
        }
        for (number, parts) in &edit.others {
            let start = self.out.len();
            if !edit.inserts {
                (self.out).push_str(&format!("if crate::__changed({number}) {{ ("));
            }
            for part in parts {
                match part {
                    Part::Text(text) => self.out.push_str(text),
                    Part::Source(range) => self.write(range.clone(), inner),
                }
            }
            if !edit.inserts {
                self.out.push_str(") } else ");
            }
            self.changes.push((*number, start..self.out.len()));
        }
        if !edit.inserts {
            self.out.push_str("{ (");
            self.write(edit.range.clone(), inner);
            self.out.push_str(") })");
        }
        let numbers = edit.others.iter().map(|(number, _)| *number).collect();
        self.around.push((numbers, start..self.out.len()));
    }

    fn copy(&mut self, range: Range<usize>) {
        self.out
            .push_str(self.source.get(range).unwrap_or_default());
    }
}

#[cfg(test)]
#[path = "switches_tests.rs"]
mod tests;
