//! `validate --live`: what the clusters lack that a mapping needs.

use std::ops::Range;

use serde_json::Value;

use super::{Compiled, ValidateArguments, compiled};
use crate::catalog::Catalog;
use crate::cli::ask;
use crate::cli::inputs::Inputs;
use crate::engine::consumer_schema::ConsumerSchemas;
use crate::mapping::diagnostic::{Diagnostic, Finding};
use crate::mapping::schema::Schemas;
use crate::mapping::{ApiExportRef, Mapping, SourceClusters};
use crate::multicluster::Endpoint;
use crate::rights::{Claim, Place, Rights, Rule, Setting, rights};
use crate::survey::access::Access;
use crate::survey::{Scene, Surveyor, TargetCluster, Unseen};
use crate::yaml::{Node, NodeValue};

/// Looks at the clusters of every mapping.
///
/// # Errors
/// Where a kubeconfig cannot be used; what a server says is a finding.
pub(super) fn check(
    arguments: &ValidateArguments,
    inputs: &Inputs,
    catalog: &Catalog,
    schemas: Schemas,
) -> anyhow::Result<Vec<Diagnostic>> {
    let surveyor =
        arguments.connections.surveyor(catalog, &arguments.engine.engine_id, &arguments.engine.state.home)?;
    let visit = Visit {
        surveyor: &surveyor,
        consumers: ConsumerSchemas::new(schemas.clone()),
        schemas,
        inventory_namespace: &arguments.engine.state.state_namespace,
        access: Access::default(),
    };
    ask(async {
        let mut diagnostics = Vec::new();
        for Compiled { file, content, document, mapping } in compiled(inputs, catalog) {
            let Some(spec) = document.root.as_ref().and_then(|root| root.get("spec")) else { continue };
            let mut findings = visit.mapping(spec, mapping).await;
            findings.dedup();
            diagnostics.extend(findings.into_iter().map(|finding| Diagnostic::new(finding, file, content)));
        }
        Ok(diagnostics)
    })
}

struct Visit<'a> {
    surveyor: &'a Surveyor,
    consumers: ConsumerSchemas,
    schemas: Schemas,
    inventory_namespace: &'a str,
    access: Access,
}

impl Visit<'_> {
    async fn mapping(&self, spec: &Node, mapping: &Mapping) -> Vec<Finding> {
        let mut findings = Vec::new();
        let export = match &mapping.source.clusters {
            SourceClusters::ApiExport(export) => Some((export, self.surveyor.export(export).await)),
            SourceClusters::Provider(_) => None,
        };
        let mut schemas = self.schemas.clone();
        if let Some((_, Ok(found))) = &export {
            // What it publishes now counts, whatever files say.
            schemas.add_export(found);
        }
        let setting = Setting {
            schemas: &schemas,
            inventory_namespace: self.inventory_namespace,
            providers: self.surveyor.providers.clone(),
            home: &self.surveyor.home,
            // Flags of `run` are none of this verb's.
            leases: &[],
            events: false,
        };
        let needed = rights([mapping], &setting);
        let source = place_of(spec, "source");
        match export {
            Some((export, Ok(found))) => {
                self.export(spec, mapping, export, &found, &needed, &mut findings).await;
            }
            Some((_, Err(why))) => findings.push(unseen(at_export(spec), &why)),
            None => {}
        }
        self.rights(spec, &needed, &mut findings).await;
        match self.surveyor.target(mapping).await {
            Err(why) => findings.push(unseen(place_of(spec, "target"), &why)),
            Ok(target) => {
                kinds(spec, mapping, &target, &mut findings);
                if findings.is_empty()
                    && let Err(why) = self.dry_run(spec, mapping, &target, &mut findings).await
                {
                    findings.push(unseen(source, &why));
                }
            }
        }
        findings
    }

    /// The export's slice, what it publishes and what it claims.
    async fn export(
        &self,
        spec: &Node,
        mapping: &Mapping,
        export: &ApiExportRef,
        found: &Value,
        needed: &Rights,
        findings: &mut Vec<Finding>,
    ) {
        if let Err(why) = self.surveyor.shards(export).await {
            findings.push(unseen(at_export(spec), &why));
        }
        let resource = &mapping.source.resource;
        match self.surveyor.publishes(export, found, resource).await {
            Err(why) => findings.push(unseen(place_of(spec, "source"), &why)),
            Ok(Ok(())) => {}
            Ok(Err(published)) => {
                let node = spec.get("source").and_then(|source| source.get("resource"));
                let message = format!("the APIExport `{}` does not publish `{resource}`", export.name);
                let help = match published.is_empty() {
                    true => "it publishes nothing: name an APIResourceSchema in its `spec.resources`".to_owned(),
                    false => format!("it publishes `{}`", published.join("`, `")),
                };
                findings.push(Finding::new("SE0804", node.map_or(0..0, |node| node.headline()), message).help(help));
            }
        }
        findings.extend(unasked(spec, export, needed, found));
    }

    async fn rights(&self, spec: &Node, needed: &Rights, findings: &mut Vec<Finding>) {
        for (place, rules) in &needed.places {
            let of = |name: &str| Ok(vec![self.surveyor.connection(name)?.endpoint()]);
            let (endpoints, side, at) = match place {
                Place::Target(name) => (of(name), "target", "target"),
                Place::Source(name) | Place::Hub(name) => (of(name), "source", "source"),
                Place::Fleet(provider) => (self.endpoints(provider).await, "source", "source"),
                Place::Provider { connection, path } => {
                    let export = ApiExportRef {
                        connection: connection.clone(),
                        path: path.clone(),
                        name: String::new(),
                        endpoint_slice: None,
                    };
                    (self.surveyor.workspace(&export).map(|one| vec![one]), "provider", "source")
                }
            };
            // A place that cannot be reached is said where it is looked at.
            for endpoint in endpoints.into_iter().flatten() {
                let lacking = self.lacking(&endpoint, rules).await;
                if lacking.is_empty() {
                    continue;
                }
                let message = format!("the engine's user may not do all that it needs on the {side}");
                let finding = Finding::new("SE0806", place_of(spec, at), message)
                    .help(format!("`sync-engine rbac --for {side}` prints what to apply there"))
                    .note(format!("asked at {}", endpoint.url()));
                findings.push(lacking.into_iter().fold(finding, |finding, line| finding.note(line)));
            }
        }
    }

    async fn endpoints(&self, provider: &str) -> Result<Vec<Endpoint>, Unseen> {
        Ok(self.surveyor.clusters(provider).await?.into_iter().map(|(_, endpoint, _)| endpoint).collect())
    }

    /// A line for each rule of which something is refused.
    async fn lacking(&self, endpoint: &Endpoint, rules: &[Rule]) -> Vec<String> {
        let mut lines = Vec::new();
        for rule in rules {
            let refused = self.access.refused(endpoint, rule).await;
            if !refused.is_empty() {
                let what = if rule.urls.is_empty() { rule.resource.clone() } else { rule.urls.join(", ") };
                let group = if rule.group.is_empty() { String::new() } else { format!(".{}", rule.group) };
                lines.push(format!("{} {what}{group} ({})", refused.join(", "), rule.why));
            }
        }
        lines
    }

    /// Sends what would be written for a source that stands, as a dry run.
    async fn dry_run(
        &self,
        spec: &Node,
        mapping: &Mapping,
        target: &TargetCluster,
        findings: &mut Vec<Finding>,
    ) -> Result<(), Unseen> {
        let resource = &mapping.source.resource;
        for cluster in self.surveyor.sources(mapping).await? {
            let Some(source) = cluster.sources.first() else { continue };
            let schema = self.consumers.check(&cluster.shard, resource).await?.schema;
            let scene = Scene { surveyor: self.surveyor, mapping, cluster: &cluster, target, schema };
            for refused in scene.refusals(source).await? {
                let at = template(spec, mapping, &refused.object).map_or(0..0, |node| node.headline());
                let message = format!("the target would refuse `{}`: {}", refused.object, refused.why);
                let title = crate::cli::sources::title(source);
                findings.push(Finding::new("SE0808", at, message).note(format!("rendered of {title}")));
            }
            return Ok(());
        }
        Ok(())
    }
}

/// What the target does not serve.
fn kinds(spec: &Node, mapping: &Mapping, target: &TargetCluster, findings: &mut Vec<Finding>) {
    for rule in &mapping.objects {
        let Some(Err(why)) = target.kinds.get(&rule.kind) else { continue };
        let at =
            template(spec, mapping, &rule.id).and_then(|node| node.get("kind")).map_or(0..0, |node| node.headline());
        findings.push(Finding::new("SE0807", at, format!("target `{}`: {why}", mapping.target)));
    }
}

/// The template of an object.
fn template<'n>(spec: &'n Node, mapping: &Mapping, id: &str) -> Option<&'n Node> {
    let index = mapping.objects.iter().position(|rule| rule.id == id)?;
    let NodeValue::Sequence(nodes) = &spec.get("objects")?.value else { return None };
    nodes.get(index)?.get("template").map(|node| &**node)
}

fn at_export(spec: &Node) -> Range<usize> {
    spec.get("source").map_or(0..0, |source| place_of(source, "apiExport"))
}

/// The key of a part of the spec; where it has none, its first line.
fn place_of(node: &Node, key: &str) -> Range<usize> {
    node.entry(key).map_or_else(|| node.headline(), |(key, _)| key.span.clone())
}

fn unseen(at: Range<usize>, why: &Unseen) -> Finding {
    let code = match why {
        Unseen::NoExport { .. } => "SE0802",
        Unseen::NoSlice { .. } => "SE0803",
        Unseen::Request(error) if error.is_forbidden() => "SE0806",
        _ => "SE0801",
    };
    Finding::new(code, at, why.to_string())
}

/// What a mapping needs in the consumers' workspaces and its APIExport does not ask for.
pub(super) fn unasked(spec: &Node, export: &ApiExportRef, needed: &Rights, document: &Value) -> Vec<Finding> {
    let finding = |claim: &Claim| {
        let lacking = unclaimed(claim, document);
        let verbs = lacking.join(", ");
        let message = format!("the APIExport `{}` does not claim {verbs} of `{}`", export.name, claim.resource);
        let finding = Finding::new("SE0805", place_of(spec, "related"), message);
        let help = "`sync-engine rbac --for claims` prints what to add; consumers must accept it";
        (!lacking.is_empty()).then(|| finding.help(help))
    };
    needed.claims.get(export).into_iter().flatten().filter_map(finding).collect()
}

/// Verbs of a claim that an APIExport does not ask for.
fn unclaimed(claim: &Claim, export: &Value) -> Vec<String> {
    let mut claims = export["spec"]["permissionClaims"].as_array().into_iter().flatten();
    // The core group can be left out.
    let group = |one: &Value| one["group"].as_str().unwrap_or_default().to_owned();
    let known = claims.find(|one| one["resource"] == claim.resource && group(one) == claim.group);
    let verbs: Vec<&str> =
        known.and_then(|known| known["verbs"].as_array()).into_iter().flatten().filter_map(Value::as_str).collect();
    let lacks = |verb: &&String| !verbs.contains(&"*") && !verbs.contains(&verb.as_str());
    claim.verbs.iter().filter(lacks).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_is_met_by_its_verbs_or_by_all() {
        let verbs = ["get", "list"].map(str::to_owned).to_vec();
        let claim = Claim { group: String::new(), resource: "secrets".into(), verbs, why: String::new() };
        let of = |claims: Value| unclaimed(&claim, &json!({"spec": {"permissionClaims": claims}}));
        assert_eq!(of(json!(null)), ["get", "list"]);
        assert_eq!(of(json!([{"group": "x", "resource": "secrets", "verbs": ["*"]}])), ["get", "list"]);
        assert_eq!(of(json!([{"resource": "secrets", "verbs": ["get", "watch"]}])), ["list"]);
        assert!(of(json!([{"group": "", "resource": "secrets", "verbs": ["*"]}])).is_empty());
    }
}
