//! `ToyOperator`: a document that says how an object's status evolves, in the expressions of mappings.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::mapping::Resource;
use crate::mapping::compile::parse_resource;
use crate::mapping::diagnostic::{Diagnostic, Finding};
use crate::mapping::document::{Metadata, Period};
use crate::mapping::expression::{Names, RootSet, Scope, Text, Unrendered};
use crate::mapping::template::Template;
use crate::yaml::{self, Entries, Node, NodeValue, Raw, Spanned};

/// The one name that an expression can read: the object as it stands.
const OBJECT: &str = "object";

/// How the sandbox plays an operator: what it writes into the objects of a resource, and when.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ToyOperatorDocument")]
struct Document {
    /// `sandbox.sync-engine.dev/v1alpha1`
    #[serde(rename = "apiVersion")]
    _api_version: ApiVersion,
    /// `ToyOperator`
    #[serde(rename = "kind")]
    _kind: Kind,
    /// Its name stands in messages.
    metadata: Metadata,
    /// What it does.
    spec: Spec,
}

/// `sandbox.sync-engine.dev/v1alpha1`
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(super) enum ApiVersion {
    #[serde(rename = "sandbox.sync-engine.dev/v1alpha1")]
    V1alpha1,
}

/// `ToyOperator`
#[derive(Debug, Clone, Deserialize, JsonSchema)]
enum Kind {
    ToyOperator,
}

/// What an operator looks after, and what it does.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spec {
    /// `plural.version.group` of the objects on the target. A resource that nothing defines is an error.
    resource: Spanned<String>,
    /// A finalizer that the operator puts on each object. Without it, objects are deleted at once.
    #[serde(default)]
    finalizer: Option<Finalizer>,
    /// One after the other, for each object; again from the first when anything but its metadata and status changes.
    steps: Vec<StepSpec>,
}

/// How an operator holds up a deletion.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Finalizer {
    /// For example `example.com/cleanup`.
    pub name: String,
    /// The time between the deletion of an object and the removal of its finalizer. Default: none.
    #[serde(default)]
    pub after: Option<Period>,
}

/// Something that an operator does to an object.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StepSpec {
    /// The time since the step before; for the first step, since the operator saw the object. Default: none.
    #[serde(default)]
    after: Option<Period>,
    /// A map of the status fields that change: a template that reads `object`, the object as it is. Null removes a field. The
    /// operator writes to the status endpoint, or to the object if the resource has none.
    #[serde(default)]
    status: Option<Raw>,
    /// Secrets in the namespace of the object. They go with the object.
    #[serde(default)]
    secrets: Vec<SecretSpec>,
}

/// A Secret that an operator makes.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SecretSpec {
    /// A text that reads `object`.
    name: Raw,
    /// Texts that read `object`, by key.
    #[serde(default)]
    data: Entries<Raw>,
}

/// JSON Schema (draft 7) of a ToyOperator, in the shape of that of mappings: a definition for each kind of map.
pub fn json_schema() -> Value {
    let mut generator = SchemaSettings::draft07().into_generator();
    generator.subschema_for::<Document>();
    json!({"definitions": generator.definitions()})
}

/// A compiled operator.
#[derive(Debug)]
pub struct ToyOperator {
    /// `metadata.name`.
    pub name: String,
    /// What it looks after.
    pub resource: Resource,
    pub finalizer: Option<Finalizer>,
    /// One after the other, for each object; again from the first when its spec changes.
    pub steps: Vec<Step>,
}

/// Something an operator does to an object.
#[derive(Debug)]
pub struct Step {
    /// Since the step before, or since the operator saw the object.
    pub after: Duration,
    status: Option<Template>,
    secrets: Vec<SecretTemplate>,
}

#[derive(Debug)]
struct SecretTemplate {
    name: Text,
    data: Vec<(String, Text)>,
}

impl ToyOperator {
    /// Compiles a text that holds one document.
    ///
    /// # Errors
    /// Everything that is wrong with it, rendered with its place in `file`.
    pub fn compile(file: &str, text: &str) -> Result<Self, Vec<String>> {
        whole(file, text, compiled)
    }
}

/// What is compiled of a text that holds one document.
///
/// # Errors
/// Everything that is wrong with it, rendered with its place in `file`.
pub(super) fn whole<T>(
    file: &str,
    text: &str,
    compiled: impl FnOnce(&Arc<Node>, &mut Vec<Finding>) -> Option<T>,
) -> Result<T, Vec<String>> {
    let Some(document) = yaml::parse_one(text) else { return Err(vec![format!("{file} holds no document")]) };
    let mut findings = document.findings;
    let compiled = document.root.and_then(|root| compiled(&root, &mut findings));
    let rendered = |finding| Diagnostic::new(finding, file, text.as_bytes()).render(false);
    match compiled {
        Some(compiled) if findings.is_empty() => Ok(compiled),
        _ if findings.is_empty() => Err(vec![format!("{file} holds no document")]),
        _ => Err(findings.into_iter().map(rendered).collect()),
    }
}

fn compiled(root: &Arc<Node>, findings: &mut Vec<Finding>) -> Option<ToyOperator> {
    let read = yaml::from_node::<Document>(root, &|_| Vec::new(), findings)?.value;
    let steps: Vec<_> = read.spec.steps.iter().map(|step| compiled_step(step, findings)).collect();
    let resource = parse_resource(&read.spec.resource);
    if resource.is_none() {
        let finding = Finding::new("SE0104", read.spec.resource.span(), "a resource is `plural.version.group`");
        findings.push(finding.help("the core group is left out: `secrets.v1`"));
    }
    let steps = steps.into_iter().collect::<Option<_>>()?;
    Some(ToyOperator { name: read.metadata.name.value, resource: resource?, finalizer: read.spec.finalizer, steps })
}

fn compiled_step(step: &StepSpec, findings: &mut Vec<Finding>) -> Option<Step> {
    let locals = [OBJECT.to_owned()];
    let names = Names { locals: &locals, ..Names::only(RootSet::of(&[])) };
    let status = match &step.status {
        Some(Raw(node)) if !matches!(node.value, NodeValue::Mapping(_)) => {
            findings.push(Finding::new("SE0104", node.headline(), "a status is a map"));
            None
        }
        Some(Raw(node)) => Some(Template::compile(node, &names, findings)?),
        None => None,
    };
    let mut text = |Raw(node): &Raw| Text::compile(node, &names, findings);
    let secrets = step.secrets.iter().map(|secret| {
        let data = secret.data.0.iter().map(|(key, value)| Some((key.value.clone(), text(value)?)));
        let data: Option<Vec<_>> = data.collect();
        Some(SecretTemplate { name: text(&secret.name)?, data: data? })
    });
    let secrets = secrets.collect::<Option<_>>()?;
    Some(Step { after: step.after.map_or(Duration::ZERO, |period| period.0), status, secrets })
}

impl Step {
    /// The fields of the status that change, for an object as it stands.
    pub fn status(&self, object: &Arc<Value>) -> Option<Result<Value, Unrendered>> {
        self.status.as_ref().map(|status| status.render(&scope(object)))
    }

    /// The Secrets that belong beside an object.
    pub fn secrets(&self, object: &Arc<Value>) -> Result<Vec<Value>, Unrendered> {
        let scope = scope(object);
        self.secrets.iter().map(|secret| secret.render(&scope, object)).collect()
    }
}

impl SecretTemplate {
    fn render(&self, scope: &Scope, object: &Value) -> Result<Value, Unrendered> {
        let data = self.data.iter().map(|(key, text)| Ok((key.clone(), Value::from(text.render(scope)?))));
        let data: serde_json::Map<String, Value> = data.collect::<Result<_, Unrendered>>()?;
        Ok(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": self.name.render(scope)?, "namespace": object["metadata"]["namespace"]},
            "stringData": data,
        }))
    }
}

fn scope(object: &Arc<Value>) -> Scope {
    let mut scope = Scope::new();
    scope.set_local(OBJECT, object.clone());
    scope
}
