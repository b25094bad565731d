//! SE08: what live clusters lack (`validate --live`).

use super::{Code, error};

pub(super) const LIVE: &[Code] = &[
    error(
        "SE0801",
        "a cluster that cannot be read",
        "The connection has no kubeconfig, or its server does not answer: nothing can be synced there.",
        "# `target: {cluster: edge}` without `--connection edge=PATH`, or with one whose server is down\n",
        "# give the engine a kubeconfig under the connection's name, and look whether `kubectl` reaches the server with it\n",
    ),
    error(
        "SE0802",
        "an APIExport that is not there",
        "Consumers bind the APIExport; without it there are no workspaces to watch.",
        "# `apiExport: {name: mongodb, path: root:mongodb}` while the workspace `root:mongodb` has no such APIExport\n",
        "# apply the APIExport in that workspace, or correct `name` and `path`\n",
    ),
    error(
        "SE0803",
        "an APIExportEndpointSlice that is not there",
        "It lists the addresses of the shards. kcp makes one with each APIExport; one that `endpointSlice` names is the provider's to make.",
        "# `apiExport: {name: mongodb, endpointSlice: edge}` while the workspace has no slice `edge`\n",
        "# leave `endpointSlice` out, or apply the slice\n",
    ),
    error(
        "SE0804",
        "an APIExport that does not publish the mapping's resource",
        "Group, plural and version of `source.resource` must be among the APIResourceSchemas that the APIExport names.",
        "# `resource: databases.v2.example.dev` while the APIExport names an APIResourceSchema that has v1 alone\n",
        "# write a resource that is published, or name the other APIResourceSchema in the APIExport\n",
    ),
    error(
        "SE0805",
        "a permission claim that the APIExport lacks",
        "What travels along, and objects beside their source, are in the consumers' workspaces. That takes a claim that they accept, except for what the APIExport publishes itself.",
        "# `related: [{id: password, direction: ToTarget, resource: secrets.v1, …}]` while the APIExport claims no secrets\n",
        "# add what `sync-engine rbac --for claims` prints to the APIExport, and accept it in the APIBindings\n",
    ),
    error(
        "SE0806",
        "rights that the engine lacks",
        "The user of the kubeconfig may not do what the mapping takes.",
        "# the engine's user may not `create` the kind of an object on the target\n",
        "# apply what `sync-engine rbac` prints for that side\n",
    ),
    error(
        "SE0807",
        "a kind that the target does not serve",
        "No CustomResourceDefinition of the kind is installed there, or not in this version.",
        "# `apiVersion: example.dev/v2` while the target serves example.dev/v1 alone\n",
        "# install the operator, or write a version that is served\n",
    ),
    error(
        "SE0808",
        "an object that the target would refuse",
        "What is rendered of a source that stands was sent as a dry run, and its server refused it: a rule in CEL, a webhook, a quota, a field that the schema at hand does not know.",
        "# a template that leaves out what the operator's webhook demands\n",
        "# write what the message asks for\n",
    ),
];
