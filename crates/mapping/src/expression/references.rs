//! What a place of a document reads by name: what it has to wait for follows from that.

use std::collections::BTreeSet;

use super::VERDICT;
use super::tree::{Base, Expr, Segment};

/// Names that are read under the roots whose entries a document declares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// `objects.<id>`
    pub objects: BTreeSet<String>,
    /// `objects.<id>.ready`, and that of one of several.
    pub verdicts: BTreeSet<String>,
    /// `vars.<name>`
    pub vars: BTreeSet<String>,
    /// `related.<id>`
    pub related: BTreeSet<String>,
    /// Names that stand without a root.
    pub locals: BTreeSet<String>,
}

impl References {
    /// What expressions read.
    pub(crate) fn of<'e>(expressions: impl IntoIterator<Item = &'e Expr>) -> Self {
        let mut read = Self::default();
        for path in expressions.into_iter().flat_map(Expr::paths) {
            let (names, name) = match &path.base {
                Base::Object(id) => (&mut read.objects, id),
                Base::Var(name) => (&mut read.vars, name),
                Base::Related(id) => (&mut read.related, id),
                Base::Local(name) => (&mut read.locals, name),
                Base::Root(_) => continue,
            };
            names.insert(name.clone());
            // Of several objects, a key comes first.
            let is_verdict = |step: &Segment| matches!(step, Segment::Key(key) if key == VERDICT);
            if matches!(path.base, Base::Object(_)) && path.segments.iter().take(2).any(is_verdict) {
                read.verdicts.insert(name.clone());
            }
        }
        read
    }

    pub fn extend(&mut self, other: &Self) {
        self.objects.extend(other.objects.iter().cloned());
        self.verdicts.extend(other.verdicts.iter().cloned());
        self.vars.extend(other.vars.iter().cloned());
        self.related.extend(other.related.iter().cloned());
        self.locals.extend(other.locals.iter().cloned());
    }
}
