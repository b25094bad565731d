//! A CustomResourceDefinition as far as an offer needs it.

use serde_json::Value;

use crate::mapping::Resource;

/// One version of a definition.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// The whole document.
    pub document: Value,
    pub resource: Resource,
    pub kind: String,
    pub singular: String,
    /// `additionalPrinterColumns` of the version.
    pub columns: Vec<Value>,
    /// The version's structural schema.
    pub schema: Value,
}

/// Why no mapping can be made of a document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsuitable {
    #[error("it holds no CustomResourceDefinition (apiextensions.k8s.io/v1)")]
    NoDefinition,
    #[error("it defines several kinds: {}; choose one with --kind", .0.join(", "))]
    Several(Vec<String>),
    #[error("it defines no kind `{wanted}`; it defines {}", .defined.join(", "))]
    NoSuchKind { wanted: String, defined: Vec<String> },
    #[error("{kind} has no version `{wanted}`; it has {}", .versions.join(", "))]
    NoSuchVersion { kind: String, wanted: String, versions: Vec<String> },
    #[error("version {version} of {kind} has no schema with fields, so there is nothing to offer")]
    NoSchema { kind: String, version: String },
    #[error("the definition lacks `{0}`")]
    Incomplete(&'static str),
    #[error(
        "{0} is cluster-scoped: an object of it belongs to no tenant, so none can be made for one; take a kind that lives \
         in a namespace, and let the cluster's owner make this one beforehand"
    )]
    ClusterScoped(String),
    #[error("`{0}` cannot name a mapping; give a name of at most {max} lower case letters, digits and `-` with --name", max = crate::mapping::compile::MAX_MAPPING_NAME)]
    BadName(String),
}

impl Definition {
    /// The definition of a kind among documents; of the only one, where no kind is named.
    ///
    /// # Errors
    /// Why no offer can be made of it.
    pub fn choose(documents: &[Value], kind: Option<&str>, version: Option<&str>) -> Result<Self, Unsuitable> {
        let is_definition = |document: &&Value| {
            document["kind"] == "CustomResourceDefinition" && document["apiVersion"] == "apiextensions.k8s.io/v1"
        };
        let defined: Vec<&Value> = documents.iter().filter(is_definition).collect();
        let kinds = || defined.iter().map(|document| text(&document["spec"]["names"]["kind"])).collect::<Vec<_>>();
        let chosen = match kind {
            Some(wanted) => defined.iter().find(|document| document["spec"]["names"]["kind"] == wanted),
            None => defined.first(),
        };
        match (chosen, kind) {
            (Some(document), Some(_)) => Self::read(document, version),
            (Some(document), None) if defined.len() == 1 => Self::read(document, version),
            (Some(_), None) => Err(Unsuitable::Several(kinds())),
            (None, Some(wanted)) if !defined.is_empty() => {
                Err(Unsuitable::NoSuchKind { wanted: wanted.to_owned(), defined: kinds() })
            }
            (None, _) => Err(Unsuitable::NoDefinition),
        }
    }

    fn read(document: &Value, version: Option<&str>) -> Result<Self, Unsuitable> {
        let spec = &document["spec"];
        let names = &spec["names"];
        let kind = given(&names["kind"], "spec.names.kind")?;
        if spec["scope"] == "Cluster" {
            return Err(Unsuitable::ClusterScoped(kind));
        }
        let chosen = chosen_version(spec, &kind, version)?;
        let schema = &chosen["schema"]["openAPIV3Schema"];
        let name = text(&chosen["name"]);
        if !schema["properties"].is_object() {
            return Err(Unsuitable::NoSchema { kind, version: name });
        }
        let singular = text(&names["singular"]);
        let group = given(&spec["group"], "spec.group")?;
        Ok(Self {
            document: document.clone(),
            resource: Resource::new(group, name, given(&names["plural"], "spec.names.plural")?),
            singular: if singular.is_empty() { kind.to_lowercase() } else { singular },
            kind,
            columns: chosen["additionalPrinterColumns"].as_array().cloned().unwrap_or_default(),
            schema: schema.clone(),
        })
    }
}

/// The version asked for; else the one that is stored.
fn chosen_version<'d>(spec: &'d Value, kind: &str, wanted: Option<&str>) -> Result<&'d Value, Unsuitable> {
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let served = || versions.iter().filter(|version| version["served"] != false);
    let chosen = match wanted {
        Some(wanted) => served().find(|version| version["name"] == wanted),
        None => served().find(|version| version["storage"] == true).or_else(|| served().next()),
    };
    chosen.ok_or_else(|| match wanted {
        Some(wanted) => Unsuitable::NoSuchVersion {
            kind: kind.to_owned(),
            wanted: wanted.to_owned(),
            versions: served().map(|version| text(&version["name"])).collect(),
        },
        None => Unsuitable::Incomplete("spec.versions"),
    })
}

fn given(value: &Value, field: &'static str) -> Result<String, Unsuitable> {
    value.as_str().map(str::to_owned).ok_or(Unsuitable::Incomplete(field))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
