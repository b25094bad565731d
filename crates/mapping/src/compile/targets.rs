//! `spec.target` and `spec.targets`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{Compiler, Needs, names, source};
use crate::diagnostic::Finding;
use crate::document::{
    ClustersSpec, Direction, MappingSpec, SourceClustersSpec, TargetChange, TargetSpec, TargetsSpec,
};
use crate::expression::RootSet;
use crate::names::{is_dns_label, is_dns_subdomain};
use crate::template::Text;
use crate::yaml::Spanned;
use crate::{ClusterSelection, OWN_CLUSTER, TargetChoice, TargetRule};

/// What an earlier build also called the source's own cluster.
pub(super) const FORMER_OWN_CLUSTER: &str = "workspace";

/// The connection of targets, where none is named.
const TARGET_CONNECTION: &str = "target";

/// What goes with a list of targets.
const SEVERAL: &[Needs] = &[
    ("forEach", "cluster", "the target of an item: `cluster: \"fleet/{{ region.name }}\"`, for example"),
    ("cluster", "forEach", "without a list, every cluster of `allowed` and `clusters` is a target"),
];

/// The one target, or the first of several, and the rule for several.
type Targets = (String, Option<TargetRule>);

impl Compiler {
    /// Which cluster receives the objects, or which of several.
    pub(super) fn targets(&mut self, spec: &MappingSpec) -> Option<Targets> {
        match (&spec.target, &spec.targets) {
            (None, None) => Some((TARGET_CONNECTION.into(), None)),
            (Some(target), None) => self.target(target),
            (None, Some(targets)) => self.several_targets(targets),
            (Some(_), Some(targets)) => {
                let finding =
                    Finding::new("SE0104", targets.span(), "a mapping has either `target` or `targets`, not both");
                self.refused(finding.help("`targets` is for sources whose objects go to several clusters at a time"))
            }
        }
    }

    fn target(&mut self, spec: &TargetSpec) -> Option<Targets> {
        let node = &spec.cluster.0;
        let Some(text) = node.as_str() else {
            let message = format!("expected a connection's name, found {}", node.describe());
            return self.refused(Finding::new("SE0102", node.headline(), message));
        };
        let on_change = spec.on_target_change.as_ref().map(|change| change.value).unwrap_or_default();
        // A provider's clusters come and go, so such a target is chosen from those that there are.
        if names::is_template(text) || text.contains('/') || on_change == TargetChange::Recreate {
            return self.chosen_target(spec, text, on_change);
        }
        let named = Spanned { value: text.to_owned(), node: node.clone() };
        if text != OWN_CLUSTER {
            self.check_target(&named);
        }
        let others = spec.allowed.iter().filter(|allowed| allowed.value != text);
        others.for_each(|allowed| self.check_target(allowed));
        if let Some(unmeant) = spec.allowed.iter().find(|allowed| allowed.value != text) {
            let message = format!("`{}` is never a target: `cluster` is always `{text}`", unmeant.value);
            let finding = Finding::new("SE0114", unmeant.span(), message);
            self.report(finding.help("`allowed` lists what an expression in `cluster` may give"));
        }
        if let Some(clusters) = &spec.clusters {
            let finding = Finding::new("SE0114", clusters.provider.span(), "`clusters` goes with an expression");
            self.report(finding.help("write which of them: `cluster: \"fleet/{{ source.spec.region }}\"`"));
        }
        Some((text.to_owned(), None))
    }

    /// One target for each source, which an expression chooses, or which may change.
    fn chosen_target(&mut self, spec: &TargetSpec, text: &str, on_change: TargetChange) -> Option<Targets> {
        let cluster = self.leaf(&spec.cluster, RootSet::TARGET, Text::compile);
        let mut allowed = spec.allowed.clone();
        if !names::is_template(text) {
            allowed.push(Spanned { value: text.to_owned(), node: spec.cluster.0.clone() });
        }
        let at = spec.cluster.0.headline();
        let (allowed, fleet) = self.possible(&allowed, spec.clusters.as_ref(), text, at)?;
        let rule = TargetRule { choice: TargetChoice::One { cluster: cluster?, on_change }, allowed, fleet };
        Some((first(&rule), Some(rule)))
    }

    fn several_targets(&mut self, spec: &Spanned<TargetsSpec>) -> Option<Targets> {
        let each = self.for_each(&spec.node, (&spec.for_each, &spec.item, &spec.key), RootSet::TARGET);
        let cluster = spec.cluster.as_ref().map(|cluster| self.leaf(cluster, RootSet::TARGET, Text::compile));
        self.end_item();
        let text = spec.cluster.as_ref().and_then(|raw| raw.0.as_str()).unwrap_or_default();
        let possible = self.possible(&spec.allowed, spec.clusters.as_ref(), text, spec.node.headline());
        self.check_needs(&spec.node, SEVERAL);
        let choice = match (spec.for_each.is_some(), each, cluster) {
            (true, Some(each), Some(cluster)) => TargetChoice::Each { each: Box::new(each), cluster: cluster? },
            (false, _, None) => TargetChoice::All,
            _ => return None,
        };
        let (allowed, fleet) = possible?;
        let rule = TargetRule { choice, allowed, fleet };
        Some((first(&rule), Some(rule)))
    }

    /// What a mapping with several targets for one source cannot say: nothing of one target may stand for all of them.
    pub(super) fn check_several(&mut self, spec: &Spanned<MappingSpec>) {
        for related in spec.related.iter().filter(|related| related.direction == Direction::ToSource) {
            let message = "`direction: ToSource` does not go with several targets for one source";
            let finding = Finding::new("SE0114", related.id.span(), message);
            self.report(finding.help("copies of several targets would have one place"));
        }
    }

    /// The targets that there may be: those that are named, or the clusters of a provider. The set is known when the document
    /// is loaded, whatever a consumer writes.
    fn possible(
        &mut self,
        allowed: &[Spanned<String>],
        clusters: Option<&ClustersSpec>,
        text: &str,
        at: Range<usize>,
    ) -> Option<(Vec<String>, Option<ClusterSelection>)> {
        allowed.iter().for_each(|allowed| self.check_target(allowed));
        let fleet = match clusters {
            Some(clusters) => {
                // A text that begins with a provider's name gives no cluster of another one.
                let given = &clusters.provider;
                let named = text.split_once('/').map(|(provider, _)| provider);
                if let Some(named) = named.filter(|named| is_dns_label(named) && *named != given.value) {
                    let message =
                        format!("no cluster of `{}` is a target: `cluster` names those of `{named}`", given.value);
                    self.report(Finding::new("SE0114", given.span(), message).help("name one provider in both"));
                }
                let provider = names::dns_label(given, "a ClusterProvider's name", &mut self.findings);
                let ClustersSpec { names, match_labels, match_properties, .. } = clusters.clone();
                let spec = SourceClustersSpec { names, match_labels, match_properties };
                Some(self.cluster_selection(&provider, &spec))
            }
            None if allowed.is_empty() => self.literal_fleet(text),
            None => None,
        };
        let names: BTreeSet<String> = allowed.iter().map(|allowed| allowed.value.clone()).collect();
        let names: Vec<String> = names.into_iter().collect();
        if names.is_empty() && fleet.is_none() {
            let finding = Finding::new("SE0114", at, "the targets that there may be are not listed");
            return self.refused(finding.help(
                "`allowed: [east, west]`, or `clusters: {provider: fleet}`: where objects may go is known when the mapping \
                 is loaded",
            ));
        }
        Some((names, fleet))
    }

    /// Clusters of a provider, for a source or as targets; what no cluster can have is a finding.
    pub(super) fn cluster_selection(&mut self, provider: &str, spec: &SourceClustersSpec) -> ClusterSelection {
        for name in spec.names.iter().filter(|name| !is_dns_subdomain(&name.value)) {
            let message = format!("`{}` is no name of a cluster", name.value);
            self.report(
                Finding::new("SE0110", name.span(), message).help("the cluster's name alone, without its provider"),
            );
        }
        source::check_labels(&spec.match_labels, &mut self.findings);
        let texts = |map: &BTreeMap<String, Spanned<String>>| {
            map.iter().map(|(key, value)| (key.clone(), value.value.clone())).collect()
        };
        ClusterSelection {
            provider: provider.to_owned(),
            names: spec.names.iter().map(|name| name.value.clone()).collect(),
            labels: texts(&spec.match_labels),
            properties: texts(&spec.match_properties),
        }
    }

    /// The clusters that a text such as `fleet/{{ region }}` may name.
    fn literal_fleet(&self, text: &str) -> Option<ClusterSelection> {
        let (provider, cluster) = text.split_once('/')?;
        let names = if names::is_template(cluster) { Vec::new() } else { vec![cluster.to_owned()] };
        is_dns_label(provider).then(|| ClusterSelection {
            provider: provider.to_owned(),
            names,
            labels: BTreeMap::new(),
            properties: BTreeMap::new(),
        })
    }

    /// A connection's name, or `provider/cluster`.
    fn check_target(&mut self, name: &Spanned<String>) {
        if name.value == OWN_CLUSTER {
            let finding = Finding::new("SE0114", name.span(), "the source's own cluster is the only target, or none");
            self.report(finding.help("write it as `target.cluster`, in a mapping of its own"));
        } else if name.value == FORMER_OWN_CLUSTER {
            let finding = Finding::new("SE0110", name.span(), "no target is called `workspace`");
            self.report(finding.help("the source's own cluster, in kcp the consumer's workspace, is called `source`"));
        } else if let Some((provider, cluster)) = name.value.split_once('/') {
            if !is_dns_label(provider) || !is_dns_subdomain(cluster) {
                let message = format!("`{}` is no provider's cluster", name.value);
                self.report(
                    Finding::new("SE0110", name.span(), message).help("`provider/cluster`, such as `edge/east`"),
                );
            }
        } else {
            names::connection(name, &mut self.findings);
        }
    }
}

/// The first target that a rule names; of a fleet alone, the provider.
fn first(rule: &TargetRule) -> String {
    let fleet = || rule.fleet.as_ref().map(|fleet| fleet.provider.clone());
    rule.allowed.first().cloned().or_else(fleet).unwrap_or_default()
}
