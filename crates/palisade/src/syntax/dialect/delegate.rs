//! What a dialect of ours does as the parser's own that it stands on.

/// Passes the parser's questions on to the dialect that a dialect of ours stands on.
macro_rules! delegate {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(fn $name(&self, $($argument: $type),*) -> $result {
            self.0.$name($($argument),*)
        })*
    };
}
pub(in crate::syntax::dialect) use delegate;
