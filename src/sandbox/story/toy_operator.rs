//! `ToyOperator`: a document that says how an object's status evolves, in the expressions of mappings.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::mapping::diagnostic::{Diagnostic, Finding};
use crate::mapping::document::{Metadata, Period};
use crate::mapping::expression::{Names, RootSet, Scope, Text, Unrendered};
use crate::mapping::template::Template;
use crate::yaml::{self, Entries, NodeValue, Raw, Spanned};

/// The one name that an expression can read: the object as it stands.
const OBJECT: &str = "object";

/// `kind: ToyOperator`
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    #[serde(rename = "apiVersion")]
    _api_version: ApiVersion,
    #[serde(rename = "kind")]
    _kind: Kind,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Clone, Deserialize)]
enum ApiVersion {
    #[serde(rename = "sandbox.sync-engine.dev/v1alpha1")]
    V1alpha1,
}

#[derive(Debug, Clone, Deserialize)]
enum Kind {
    ToyOperator,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spec {
    resource: Spanned<String>,
    steps: Vec<StepSpec>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StepSpec {
    #[serde(default)]
    after: Option<Period>,
    #[serde(default)]
    status: Option<Raw>,
    #[serde(default)]
    secrets: Vec<SecretSpec>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SecretSpec {
    name: Raw,
    #[serde(default)]
    data: Entries<Raw>,
}

/// A compiled operator.
#[derive(Debug)]
pub struct ToyOperator {
    /// `metadata.name`.
    pub name: String,
    /// What it looks after: `plural.version.group`.
    pub resource: String,
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
        let mut findings = Vec::new();
        let operator = compiled(text, &mut findings);
        let rendered = |finding| Diagnostic::new(finding, file, text.as_bytes()).render(false);
        match operator {
            Some(operator) if findings.is_empty() => Ok(operator),
            _ if findings.is_empty() => Err(vec![format!("{file} holds no document")]),
            _ => Err(findings.into_iter().map(rendered).collect()),
        }
    }
}

fn compiled(text: &str, findings: &mut Vec<Finding>) -> Option<ToyOperator> {
    let document = yaml::parse_one(text)?;
    findings.extend(document.findings);
    let read = yaml::from_node::<Document>(&document.root?, &|_| Vec::new(), findings)?.value;
    let steps: Vec<_> = read.spec.steps.iter().map(|step| compiled_step(step, findings)).collect();
    let resource = read.spec.resource;
    if resource.value.splitn(3, '.').count() < 2 {
        let finding = Finding::new("SE0104", resource.span(), "a resource is `plural.version.group`");
        findings.push(finding.help("the core group is left out: `secrets.v1`"));
    }
    let steps = steps.into_iter().collect::<Option<_>>()?;
    Some(ToyOperator { name: read.metadata.name.value, resource: resource.value, steps })
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
