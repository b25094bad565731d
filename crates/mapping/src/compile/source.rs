//! `spec.source`, `spec.target` and `spec.placement`.

use std::collections::BTreeMap;

use super::related::COPIED;
use super::{Compiler, names};
use crate::diagnostic::Finding;
use crate::document::{ApiExportSpec, Direction, MappingSpec, PlacementSpec, RelatedSpec, SelectorSpec, SourceSpec};
use crate::expression::{Expression, RootSet};
use crate::names::{is_label_key, is_label_value};
use crate::placement::Placement;
use crate::provider::SOURCE_CONNECTION;
use crate::template::Text;
use crate::yaml::{Raw, Spanned};
use crate::{ApiExportRef, ClusterSelection, OWN_CLUSTER, Selector, SelectorOperator, Source, SourceClusters};

impl Compiler {
    pub(super) fn source(&mut self, spec: &Spanned<SourceSpec>) -> Option<Source> {
        let clusters = self.source_clusters(spec);
        let resource = names::resource(&spec.resource, &mut self.findings);
        let when = self.optional(spec.when.as_ref(), RootSet::FILTER, Expression::compile);
        let selector = selector(&spec.selector, &mut self.findings);
        let namespaces = spec.namespaces.clone();
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '*' | '?');
        for glob in namespaces.include.iter().chain(&namespaces.exclude) {
            if glob.is_empty() || !glob.chars().all(fits) {
                let finding = Finding::new("SE0116", glob.span(), format!("`{}` matches no namespace", glob.value));
                self.report(finding.help("lower case letters, digits and `-`, with `*` and `?` for any"));
            }
        }
        if let Some(first) = namespaces.exclude.first().filter(|_| namespaces.is_all_excluded()) {
            let finding = Finding::new("SE0114", first.span(), "`exclude` leaves no namespace that is served");
            self.report(finding.help("name fewer there; with `mode: Suspend`, nothing but deletions runs"));
        }
        let (clusters, resource, on_exit) = (clusters?, resource?, spec.on_exit);
        let selection = self.source_selection(spec, &clusters);
        Some(Source { clusters, selection, resource, selector, namespaces, when, on_exit })
    }

    /// Which clusters of the provider.
    fn source_selection(&mut self, spec: &SourceSpec, clusters: &SourceClusters) -> Option<ClusterSelection> {
        let given = spec.clusters.as_ref()?;
        let SourceClusters::Provider(provider) = clusters else {
            let finding = Finding::new("SE0114", given.node.headline(), "`clusters` goes with `provider`");
            return self.refused(
                finding.help("whoever binds an APIExport chooses to be served; `selector` and `when` choose sources"),
            );
        };
        if given.names.is_empty() && given.match_labels.is_empty() && given.match_properties.is_empty() {
            let finding = Finding::new("SE0114", given.node.headline(), "`clusters` does not say which clusters");
            return self.refused(
                finding.help("give `names`, `matchLabels` or `matchProperties`; leave `clusters` out for all"),
            );
        }
        Some(self.cluster_selection(provider, given))
    }

    fn source_clusters(&mut self, spec: &Spanned<SourceSpec>) -> Option<SourceClusters> {
        match (&spec.api_export, &spec.provider) {
            (Some(export), None) => Some(SourceClusters::ApiExport(self.api_export(export))),
            (None, Some(provider)) => {
                let name = names::dns_label(provider, "a ClusterProvider's name", &mut self.findings);
                Some(SourceClusters::Provider(name))
            }
            // What is wrong with the one that stands there was said.
            (None, None) if ["apiExport", "provider"].iter().any(|field| spec.node.given(field).is_some()) => None,
            (None, None) => {
                let finding =
                    Finding::new("SE0104", spec.resource.span(), "the source has neither `apiExport` nor `provider`");
                self.refused(finding.help("say where the clusters come from: `apiExport: {name: …}` or `provider: …`"))
            }
            (Some(_), Some(provider)) => {
                let message = "a source has either `apiExport` or `provider`, not both";
                self.refused(Finding::new("SE0104", provider.span(), message))
            }
        }
    }

    fn api_export(&mut self, spec: &ApiExportSpec) -> ApiExportRef {
        let findings = &mut self.findings;
        let connection = spec.connection.as_ref().map(|name| names::connection(name, findings));
        let (export, slice) = ("an APIExport's name", "an APIExportEndpointSlice's name");
        ApiExportRef {
            connection: connection.unwrap_or_else(|| SOURCE_CONNECTION.into()),
            path: spec.path.as_ref().map(|path| names::workspace_path(path, findings)),
            name: names::dns_subdomain(&spec.name, export, findings),
            endpoint_slice: spec.endpoint_slice.as_ref().map(|name| names::dns_subdomain(name, slice, findings)),
        }
    }

    /// What a mapping cannot say whose objects are beside their sources.
    pub(super) fn check_beside(&mut self, spec: &Spanned<MappingSpec>) {
        let placement = spec.node.get("placement");
        for field in ["namespace", "createNamespace", "namespaceLabels"] {
            let Some((key, _)) = placement.and_then(|placement| placement.entry(field)) else { continue };
            let message = format!("`{field}` does not go with a target that is the source's own cluster");
            let finding = Finding::new("SE0114", key.span.clone(), message);
            self.report(finding.help("leave it out: the objects are in the namespace of their source"));
        }
        for (key, _) in spec.objects.iter().filter_map(|object| object.node.entry("shared")) {
            let finding =
                Finding::new("SE0114", key.span.clone(), "`shared` does not go with the source's own cluster");
            self.report(finding.help("leave it out: there, each source has objects of its own"));
        }
        let is_copied = |related: &RelatedSpec| COPIED.contains(&related.resource.as_str());
        let is_read = |related: &RelatedSpec| related.direction == Direction::ToTarget && !is_copied(related);
        for related in spec.related.iter().filter(|related| !is_read(related)) {
            let finding = Finding::new("SE0114", related.node.headline(), "source and target are one cluster here");
            self.report(finding.help("nothing travels between them; only objects of other kinds can be read"));
        }
    }

    pub(super) fn placement(&mut self, spec: Option<&PlacementSpec>) -> Option<Placement> {
        let default = PlacementSpec::default();
        let spec = spec.unwrap_or(&default);
        let namespace = self.placed(spec.namespace.as_ref(), RootSet::NAMESPACE, Placement::default_namespace);
        let name = self.placed(spec.name.as_ref(), RootSet::PLACEMENT, Placement::default_name);
        if let (Some(false), Some((key, _))) = (spec.create_namespace, spec.namespace_labels.0.first()) {
            let message = "nothing would set these labels: `createNamespace` is false";
            let finding = Finding::new("SE0114", key.span(), message);
            self.report(finding.help("leave them out, and label each namespace where it is created"));
        }
        let labels: Vec<_> =
            spec.namespace_labels.0.iter().map(|(key, value)| self.namespace_label(key, value)).collect();
        let namespace_labels: Option<Vec<_>> = labels.into_iter().collect();
        Some(Placement {
            namespace: namespace?,
            name: name?,
            create_namespace: spec.create_namespace.unwrap_or(true),
            namespace_labels: namespace_labels?,
        })
    }

    fn namespace_label(&mut self, key: &Spanned<String>, value: &Raw) -> Option<(String, Text)> {
        if !is_label_key(key) {
            let finding = Finding::new("SE0110", key.span(), format!("`{}` is no label's key", key.value));
            self.report(finding.help("letters, digits, `-`, `_` and `.`, with a DNS name and `/` before it if needed"));
        } else if names::is_mark(key) {
            let finding = Finding::new("SE0113", key.span(), format!("`{}` is set by the engine", key.value));
            self.report(finding.help("leave it out"));
        }
        let text = self.leaf(value, RootSet::PLACEMENT, Text::compile)?;
        if let Some(literal) = text.literal().filter(|literal| !is_label_value(literal)) {
            let finding = Finding::new("SE0110", value.0.headline(), format!("`{literal}` is no label's value"));
            self.report(
                finding.help("at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends"),
            );
        }
        Some((key.value.clone(), text))
    }

    fn placed(&mut self, given: Option<&Raw>, roots: RootSet, default: fn() -> Text) -> Option<Text> {
        match given {
            Some(raw) => self.leaf(raw, roots, Text::compile),
            None => Some(default()),
        }
    }
}

/// Whether `placement.namespace` may differ for two sources of one namespace.
pub(super) fn namespace_reads_source(spec: Option<&PlacementSpec>) -> bool {
    let namespace = spec.and_then(|spec| spec.namespace.as_ref());
    let text = namespace.and_then(|namespace| namespace.0.as_str()).unwrap_or_default();
    text.replace("source.metadata.namespace", "").contains("source.")
}

/// Whether the objects are in workspaces which are their own sources: each has one.
pub(super) fn is_alone(spec: &MappingSpec) -> bool {
    let target = spec.target.as_ref().and_then(|target| target.cluster.0.as_str());
    let resource = spec.source.resource.value.as_str();
    target == Some(OWN_CLUSTER) && resource.starts_with("logicalclusters.") && resource.ends_with(".core.kcp.io")
}

pub(super) fn check_labels(labels: &BTreeMap<String, Spanned<String>>, findings: &mut Vec<Finding>) {
    for (key, value) in labels {
        if !is_label_key(key) || !is_label_value(value) {
            let message = format!("no object can have the label `{key}: {}`", value.value);
            findings.push(Finding::new("SE0116", value.span(), message));
        }
    }
}

/// A label selector; what no object can have is a finding.
pub(super) fn selector(spec: &SelectorSpec, findings: &mut Vec<Finding>) -> Selector {
    let before = findings.len();
    check_labels(&spec.match_labels, findings);
    let requirements = spec.match_expressions.iter().map(|requirement| {
        let takes_values = matches!(requirement.operator, SelectorOperator::In | SelectorOperator::NotIn);
        let said = match (takes_values, requirement.values.is_empty()) {
            (true, true) => Some("`In` and `NotIn` need `values`"),
            (false, false) => Some("`Exists` and `DoesNotExist` take no `values`"),
            _ if !is_label_key(&requirement.key) => Some("no object can have a label of this key"),
            _ => None,
        };
        if let Some(message) = said {
            findings.push(Finding::new("SE0116", requirement.span(), message));
        }
        requirement.value.clone()
    });
    let match_expressions = requirements.collect();
    let match_labels: BTreeMap<_, _> =
        spec.match_labels.iter().map(|(key, value)| (key.clone(), value.value.clone())).collect();
    let selector = Selector { match_labels, match_expressions };
    let contradicted = spec.match_expressions.iter().find(|requirement| !selector.can_hold(&requirement.key));
    if let Some(requirement) = contradicted.filter(|_| findings.len() == before) {
        let message = format!("what is asked of the label `{}` holds for no object", requirement.key);
        let finding = Finding::new("SE0114", requirement.span(), message);
        findings.push(finding.help("leave out what contradicts the rest"));
    }
    selector
}
