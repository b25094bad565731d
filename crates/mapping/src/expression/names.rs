//! What an expression may name: the roots of the language, and which of them a place can read.

/// What a namespace rule reads, for people.
pub(crate) const NAMESPACE_READS: &str =
    "here can be read: `source.metadata.namespace`, `source.metadata.name` and `workspace.cluster`";

/// What stands in each object for the engine's own verdict: whether it is ready. It hides a field of the object's own.
pub const VERDICT: &str = "ready";

crate::words! {
    /// The first word of a path.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Root {
        /// The consumer's object, without its status.
        Source = "source",
        /// `cluster` and `path` of the consumer's workspace.
        Workspace = "workspace",
        /// `namespace` and `name` an object gets downstream.
        Placement = "placement",
        /// `cluster` the objects go to; of several, also its `key`.
        Target = "target",
        Vars = "vars",
        Related = "related",
        /// The downstream objects as they are observed.
        Objects = "objects",
        /// `name` of the mapping.
        Mapping = "mapping",
        /// What a `transform` is given.
        Value = "value",
        /// The targets of a source, where there are several, by their keys.
        Targets = "targets",
    }
}

/// Whether a text can be a name that expressions read: of an id, a variable, or the item of a list.
pub fn is_identifier(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && text.len() <= 63
}

/// Whether a word means something in every expression.
pub fn is_taken(word: &str) -> bool {
    Root::from_name(word).is_some() || matches!(word, "omit" | "null" | "true" | "false" | "none")
}

impl Root {
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|root| root.as_str() == name)
    }

    /// The fields of a root whose shape the engine gives; `None`: any.
    pub const fn fields(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Workspace => Some(&["cluster", "path"]),
            Self::Placement => Some(&["namespace", "name"]),
            Self::Target => Some(&["cluster", "key"]),
            Self::Mapping => Some(&["name"]),
            _ => None,
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// Which roots a place of a document can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootSet {
    roots: u16,
    /// Of `placement`, the namespace alone: a shared object has no source, hence no name of its own.
    namespace_only: bool,
    /// Of `source`, its namespace and name alone. Of `workspace`, a check refuses the path, for a recorded document may read it.
    identity_only: bool,
}

impl RootSet {
    /// The filter of the source (`source.when`): what is known before anything is decided.
    pub const FILTER: Self = Self::of(&[Root::Source, Root::Workspace, Root::Target, Root::Mapping]);
    pub const PLACEMENT: Self = Self::FILTER;
    /// A namespace rule: ownership labels and annotations count in the namespaces that it gives, so it reads what cannot
    /// change.
    pub const NAMESPACE: Self = Self { identity_only: true, ..Self::of(&[Root::Source, Root::Workspace]) };
    /// The choice of a target.
    pub const TARGET: Self = Self::of(&[Root::Source, Root::Workspace, Root::Mapping]);
    /// Everything but `value`.
    pub const TEMPLATE: Self = Self::of(&[
        Root::Source,
        Root::Workspace,
        Root::Placement,
        Root::Target,
        Root::Vars,
        Root::Related,
        Root::Objects,
        Root::Mapping,
    ]);
    /// `when` and template of a shared object: `placement.namespace`, `target` and `mapping`.
    pub const SHARED: Self = Self { namespace_only: true, ..Self::of(&[Root::Placement, Root::Target, Root::Mapping]) };
    /// Status fields and conditions; objects that are not there read as undefined (see `Scope::lenient_objects`).
    pub const STATUS: Self = Self::TEMPLATE;
    /// The same where a source has several targets: `targets` in place of what is of one of them.
    pub const STATUS_OF_SEVERAL: Self =
        Self::of(&[Root::Source, Root::Workspace, Root::Placement, Root::Vars, Root::Mapping, Root::Targets]);
    /// The objects of `observed` and `related` of a test.
    pub const OBSERVED: Self = Self::FILTER.and(Root::Placement);
    /// As `STATUS`, with the value that is transformed.
    pub const TRANSFORM: Self = Self::STATUS.and(Root::Value);

    pub const fn of(roots: &[Root]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < roots.len() {
            bits |= roots[index].bit();
            index += 1;
        }
        Self { roots: bits, namespace_only: false, identity_only: false }
    }

    /// These roots and another one.
    pub const fn and(self, root: Root) -> Self {
        Self { roots: self.roots | root.bit(), ..self }
    }

    /// Where expressions stand, and what can be read there: for the reference.
    pub const PLACES: [(&'static str, Self); 9] = [
        ("`source.when`", Self::FILTER),
        ("`target.cluster`; `forEach`, `key` and `cluster` of `targets`", Self::TARGET),
        ("`placement.namespace`", Self::NAMESPACE),
        ("`placement.name`, `placement.namespaceLabels`", Self::PLACEMENT),
        ("`vars`, `related`; `when`, `forEach`, `key` and `template` of objects", Self::TEMPLATE),
        ("`when` and `template` of shared objects", Self::SHARED),
        ("`ready`, `failed`, status fields and conditions", Self::STATUS),
        ("status fields and conditions of a mapping with `targets`", Self::STATUS_OF_SEVERAL),
        ("`observed` and `related` of a test", Self::OBSERVED),
    ];

    /// What of a root can be read: nothing (`None`), these fields, or all of it (no fields).
    pub fn readable(self, root: Root) -> Option<&'static [&'static str]> {
        let part = match root {
            Root::Source if self.identity_only => &["metadata.namespace", "metadata.name"][..],
            Root::Workspace if self.identity_only => &["cluster"],
            Root::Placement if self.namespace_only => &["namespace"],
            _ => &[],
        };
        self.contains(root).then_some(part)
    }

    pub const fn contains(self, root: Root) -> bool {
        self.roots & root.bit() != 0
    }

    pub fn iter(self) -> impl Iterator<Item = Root> {
        Root::ALL.into_iter().filter(move |root| self.contains(*root))
    }

    /// Whether nothing of the source can be read beside its namespace and name.
    pub fn reads_identity_only(self) -> bool {
        self.identity_only
    }

    /// The fields that can be read of a root of fixed shape; `None`: any.
    pub fn fields(self, root: Root) -> Option<&'static [&'static str]> {
        if root == Root::Placement && self.namespace_only { Some(&["namespace"]) } else { root.fields() }
    }
}

/// What is declared where an expression stands.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    /// Variables that can be read: the ones before this place.
    pub vars: &'a [String],
    /// Ids of `spec.objects`.
    pub objects: &'a [String],
    /// Ids of `spec.related`.
    pub related: &'a [String],
    /// Names that stand without a root, as the `as` of a `forEach`.
    pub locals: &'a [String],
    pub roots: RootSet,
}

impl Names<'static> {
    /// The roots alone: no variable, object, related object or local name is declared.
    pub const fn only(roots: RootSet) -> Self {
        Self { vars: &[], objects: &[], related: &[], locals: &[], roots }
    }
}
