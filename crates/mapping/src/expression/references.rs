//! What a place of a document reads by name: what it has to wait for follows from that.

use std::collections::BTreeSet;

use super::Root;

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
    pub(super) fn add(&mut self, root: Root, name: &str) {
        let names = match root {
            Root::Objects => &mut self.objects,
            Root::Vars => &mut self.vars,
            Root::Related => &mut self.related,
            _ => return,
        };
        names.insert(name.to_owned());
    }

    pub fn extend(&mut self, other: &Self) {
        self.objects.extend(other.objects.iter().cloned());
        self.verdicts.extend(other.verdicts.iter().cloned());
        self.vars.extend(other.vars.iter().cloned());
        self.related.extend(other.related.iter().cloned());
        self.locals.extend(other.locals.iter().cloned());
    }
}
