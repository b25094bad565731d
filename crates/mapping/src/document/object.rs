//! `spec.objects`: what is rendered for the target.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::yaml::{Entries, Raw, Spanned};

/// One target object.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectSpec {
    /// Its name in expressions and status: `objects.<id>`.
    pub id: Spanned<String>,
    /// One object for several sources, with a fixed name. It stays while one of them needs it.
    pub shared: Option<Shared>,
    /// An expression: if it is false, there is no object, and one that exists is deleted; if it cannot be evaluated, the object stays as it is.
    pub when: Option<Raw>,
    /// A list: one object for each item.
    pub for_each: Option<Raw>,
    /// The item's name in expressions.
    #[serde(rename = "as")]
    pub item: Option<Spanned<String>>,
    /// Tells the items apart.
    pub key: Option<Raw>,
    /// Objects (and `related.<id>`) that must be ready first.
    #[serde(default)]
    pub depends_on: Vec<Spanned<String>>,
    /// The object. `apiVersion` and `kind` are literals; namespace and name come from the placement.
    pub template: Raw,
    /// An expression: the object is ready. Default: the rules of its kind, else its condition `Ready` or `Available`, else that it exists.
    pub ready: Option<Raw>,
    /// An expression: the object has failed for good.
    pub failed: Option<Raw>,
    /// How it is written.
    pub apply: Option<ApplySpec>,
    /// Keys of a Secret that the engine fills with random text when it creates them. The text stays until the object or the key is
    /// deleted.
    #[serde(default)]
    pub generate: Entries<GenerateSpec>,
    /// What to do when others change a field that the template sets.
    #[serde(default)]
    pub drift: Drift,
    /// Whether an object that exists already at its placement may be taken over. Default: `Never`.
    #[serde(default)]
    pub adopt: Adopt,
    /// How it is deleted.
    #[serde(default)]
    pub delete: DeleteSpec,
    /// What to do when its kind or name changes in the mapping while it exists.
    #[serde(default)]
    pub on_identity_change: IdentityChange,
}

/// How far an object is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Shared {
    /// One for each namespace of each target.
    Namespace,
}

/// How an object is written.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApplySpec {
    /// JSON pointers to what is left to others. A step `*` stands for every item of a list, `[name=cpu]` for the item with that field.
    #[serde(default)]
    pub ignore: Vec<Spanned<String>>,
    /// JSON pointers to what is set when the object is created, and left to others from then on. Steps are as in `ignore`.
    #[serde(default)]
    pub at_creation: Vec<Spanned<String>>,
}

/// Random text: letters and digits.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GenerateSpec {
    /// How many, from 16 to 128. Default: 24.
    pub length: Option<Spanned<u16>>,
}

/// What to do when others change a field that the template sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Drift {
    /// Put right.
    #[default]
    Correct,
    /// Left and reported.
    Report,
    /// Left.
    Ignore,
}

/// Whether an object that exists already may be taken over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Adopt {
    /// It is a `Conflict`.
    #[default]
    Never,
    /// It is taken over if it has no controller among its owners, no label `app.kubernetes.io/managed-by`, and no ownership labels of
    /// an engine. From then on it belongs to the source, and is deleted with it.
    IfUnowned,
}

/// How an object is deleted.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteSpec {
    /// Whether it is deleted with its source.
    #[serde(default)]
    pub policy: DeletePolicy,
    /// What becomes of the objects that it owns itself.
    #[serde(default)]
    pub propagation: Propagation,
}

/// Whether an object is deleted with its source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum DeletePolicy {
    #[default]
    Delete,
    /// Left, without ownership labels and annotations.
    Orphan,
}

crate::words! {
    /// `propagationPolicy` of the delete.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
    pub enum Propagation {
        #[default]
        Background = "Background",
        Foreground = "Foreground",
        Orphan = "Orphan",
    }
}

/// What to do when an existing object's kind or name changes in the mapping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum IdentityChange {
    /// Keep the old one, make no new one, and say so.
    #[default]
    Block,
    /// Leave the old one without ownership labels and annotations, and make the new one.
    Orphan,
    /// Delete the old one, then make the new one.
    Recreate,
}
