//! What policies say, one file for each question.

pub(in crate::policy) mod columns;
pub(in crate::policy) mod ddl;
pub(in crate::policy) mod foreign_key;
pub(in crate::policy) mod functions;
pub(in crate::policy) mod inherited;
pub(in crate::policy) mod mask_fit;
pub(in crate::policy) mod relation;
pub(in crate::policy) mod rows;
pub(in crate::policy) mod system_relations;
pub(in crate::policy) mod writes;
