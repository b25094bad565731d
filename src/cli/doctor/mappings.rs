//! What clusters lack that a mapping needs, with its place in the document.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::Value;

use crate::cli::validate::unasked::{place_of, unasked};
use crate::engine::consumer_schema::ConsumerSchemas;
use crate::mapping::diagnostic::Finding;
use crate::mapping::schema::Schemas;
use crate::mapping::{ApiExportRef, Mapping, Resource, SourceClusters};
use crate::multicluster::Endpoint;
use crate::rights::{Place, Rights, Rule, Setting, rights, targets};
use crate::survey::access::Access;
use crate::survey::{Scene, Surveyor, TargetCluster, Unseen};
use crate::yaml::Node;

/// The verbs that mappings need of each resource in the workspaces that bind an export.
pub(super) type Claimed = BTreeMap<ApiExportRef, BTreeMap<Resource, BTreeSet<String>>>;

/// A look at the clusters of mappings, one after another.
pub(super) struct Visit<'a> {
    surveyor: &'a Surveyor,
    consumers: ConsumerSchemas,
    schemas: Schemas,
    access: Access,
    /// What was needed so far.
    pub claimed: Claimed,
}

impl<'a> Visit<'a> {
    pub fn new(surveyor: &'a Surveyor, schemas: Schemas) -> Self {
        let consumers = ConsumerSchemas::new(schemas.clone());
        let (access, claimed) = (Access::default(), Claimed::default());
        Self { surveyor, consumers, schemas, access, claimed }
    }

    /// What is lacking for one mapping. What a server says is a finding.
    pub async fn mapping(&mut self, mapping: &Mapping) -> Vec<Finding> {
        let spec = &mapping.spec;
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
            inventory_namespace: &self.surveyor.namespace,
            providers: self.surveyor.providers.clone(),
            home: &self.surveyor.home,
            // Flags of `run` are none of this verb's.
            leases: &[],
            events: false,
        };
        let needed = rights([mapping], &setting);
        let source = place_of(spec, "source");
        if let Some((export, found)) = export {
            for claim in needed.claims.get(export).into_iter().flatten() {
                let (group, plural) = (claim.group.clone(), claim.resource.clone());
                let resource = Resource { group, version: String::new(), plural };
                let claimed = self.claimed.entry(export.clone()).or_default().entry(resource).or_default();
                claimed.extend(claim.verbs.iter().cloned());
            }
            match found {
                Ok(found) => self.export(mapping, export, &found, &needed, &mut findings).await,
                Err(why) => findings.push(unseen(at_export(spec), &why)),
            }
        }
        self.rights(mapping, &needed, &mut findings).await;
        let first = self.surveyor.target_name(mapping);
        let mut names = vec![first];
        if mapping.target_rule.is_some() && self.surveyor.target.is_none() {
            names.extend(mapping.named_targets().into_iter().filter(|name| *name != first));
        }
        for name in names {
            match self.surveyor.target(mapping, name).await {
                Err(why) => findings.push(unseen(place_of(spec, "target"), &why)),
                Ok(target) => {
                    kinds(mapping, name, &target, &mut findings);
                    // Which cluster of a fleet a source goes to is the source's to say.
                    let is_one = name == first && self.surveyor.connection(name).is_ok();
                    if findings.is_empty()
                        && is_one
                        && let Err(why) = self.dry_run(mapping, &target, &mut findings).await
                    {
                        findings.push(unseen(source.clone(), &why));
                    }
                }
            }
        }
        findings.dedup();
        findings
    }

    /// The export's slice, what it publishes and what it claims.
    async fn export(
        &self,
        mapping: &Mapping,
        export: &ApiExportRef,
        found: &Value,
        needed: &Rights,
        findings: &mut Vec<Finding>,
    ) {
        let spec = &mapping.spec;
        if let Err(why) = self.surveyor.shards(export).await {
            findings.push(unseen(at_export(spec), &why));
        }
        let resource = &mapping.source.resource;
        match self.surveyor.publishes(export, found, resource).await {
            Err(why) => findings.push(unseen(place_of(spec, "source"), &why)),
            Ok(Ok(())) => {}
            Ok(Err(published)) => {
                let node = spec.at(&["source", "resource"]);
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

    async fn rights(&self, mapping: &Mapping, needed: &Rights, findings: &mut Vec<Finding>) {
        for (place, rules) in &needed.places {
            // A place that cannot be reached is said where it is looked at.
            let of = |name: &str| Vec::from_iter(self.surveyor.connection(name).map(|found| found.endpoint()));
            let (endpoints, side) = match place {
                Place::Target(name) => (of(name), "target"),
                Place::Source(name) | Place::Hub(name) => (of(name), "source"),
                Place::Fleet(provider) => {
                    let clusters = self.surveyor.clusters(provider).await.unwrap_or_default();
                    (clusters.into_iter().map(|(_, endpoint, _)| endpoint).collect(), "source")
                }
                Place::Provider { connection, path } => {
                    let connection = self.surveyor.connection(connection).ok();
                    let workspace = connection.and_then(|found| found.workspace(path.as_deref()).ok());
                    (Vec::from_iter(workspace), "provider")
                }
            };
            let (what, at) = role_of(place, mapping);
            for endpoint in endpoints {
                let lacking = self.lacking(&endpoint, rules).await;
                if lacking.is_empty() {
                    continue;
                }
                let message = format!("the engine's user may not do all that it needs on {what}");
                let finding = Finding::new("SE0806", place_of(&mapping.spec, at), message)
                    .help(format!(
                        "`sync-engine rbac --for {side}` prints what to apply there; `--subject` names the engine's user, if it is \
                         not the default"
                    ))
                    .note(format!("asked at {}", endpoint.url()));
                findings.push(lacking.into_iter().fold(finding, |finding, line| finding.note(line)));
            }
        }
    }

    /// A line for each rule of which something is refused.
    async fn lacking(&self, endpoint: &Endpoint, rules: &[Rule]) -> Vec<String> {
        let mut lines = Vec::new();
        for rule in rules {
            let refused = self.access.refused(endpoint, rule).await;
            if !refused.is_empty() {
                lines.push(format!("{} {} ({})", refused.join(", "), rule.what(), rule.why));
            }
        }
        lines
    }

    /// Sends what would be written for a source that stands, as a dry run.
    async fn dry_run(
        &self,
        mapping: &Mapping,
        target: &TargetCluster,
        findings: &mut Vec<Finding>,
    ) -> Result<(), Unseen> {
        let resource = &mapping.source.resource;
        for cluster in self.surveyor.sources(mapping).await? {
            let Some(source) = cluster.sources.first() else { continue };
            let schema = self.consumers.check(&cluster.shard, resource).await?.schema;
            let (surveyor, cluster) = (self.surveyor, &cluster);
            let copies = surveyor.copies(mapping, cluster).await?;
            let scene = Scene { surveyor, mapping, cluster, target, shared: None, schema, copies };
            for refused in scene.refusals(source).await? {
                let at = template(mapping, &refused.object).map_or(0..0, |node| node.headline());
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
fn kinds(mapping: &Mapping, name: &str, target: &TargetCluster, findings: &mut Vec<Finding>) {
    for rule in &mapping.objects {
        let Some(Err(why)) = target.kinds.get(&rule.kind) else { continue };
        let at = template(mapping, &rule.id).and_then(|node| node.get("kind")).map_or(0..0, |node| node.headline());
        findings.push(Finding::new("SE0807", at, format!("target `{name}`: {why}")));
    }
}

/// The template of an object.
fn template<'m>(mapping: &'m Mapping, id: &str) -> Option<&'m Node> {
    let (written, _) = mapping.written_objects().find(|(_, rule)| rule.id == id)?;
    written.get("template").map(|node| &**node)
}

/// What a place is to a mapping, and the part of the document that names it.
fn role_of(place: &Place, mapping: &Mapping) -> (&'static str, &'static str) {
    let target = if mapping.spec.entry("targets").is_some() { "targets" } else { "target" };
    match place {
        Place::Target(_) => ("the target", target),
        Place::Fleet(provider) if targets(mapping, "").contains(place) => match &mapping.source.clusters {
            SourceClusters::Provider(source) if source == provider => ("a cluster of the fleet", "source"),
            _ => ("a target", target),
        },
        Place::Source(_) | Place::Fleet(_) => ("the source", "source"),
        Place::Hub(_) => ("the cluster that lists others", "source"),
        Place::Provider { .. } => ("the provider", "source"),
    }
}

fn at_export(spec: &Node) -> Range<usize> {
    spec.get("source").map_or(0..0, |source| place_of(source, "apiExport"))
}

fn unseen(at: Range<usize>, why: &Unseen) -> Finding {
    let code = match why {
        Unseen::NoExport { .. } => "SE0802",
        Unseen::NoSlice(_) => "SE0803",
        Unseen::Request(error) if error.code() == Some(403) => "SE0806",
        _ => "SE0801",
    };
    Finding::new(code, at, why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::compile::{Compiled, compile};

    #[test]
    fn a_fleet_of_targets_is_no_source() {
        let text = include_str!("../../../examples/fleet/mappings/hub-and-spoke.yaml");
        let mapping = match compile(&crate::yaml::parse_one(text).expect("a document")).compiled {
            Some(Compiled::Mapping(mapping)) => mapping,
            other => panic!("{other:?}"),
        };
        let role_of = |provider: &str| role_of(&Place::Fleet(provider.to_owned()), &mapping);
        assert_eq!([role_of("shops"), role_of("office")], [("a target", "targets"), ("the source", "source")]);
    }
}
