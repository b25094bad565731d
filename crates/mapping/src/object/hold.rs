//! What holds a kcp workspace up until the engine is done with it: an initializer or a terminator.
//!
//! kcp puts it into the status of the workspace's LogicalCluster before anybody else sees the workspace, or lets it go. It
//! is to the engine what its finalizer is on other sources, and the only thing of a LogicalCluster that the engine writes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An entry of a LogicalCluster's status that the engine takes out, and no other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Hold {
    pub stage: HoldStage,
    /// The logical cluster and the name of the WorkspaceType: `2yfjjxzfqoa6apug:team`.
    pub name: String,
}

/// What kcp waits with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HoldStage {
    /// Letting anybody use the workspace.
    Initializing,
    /// Deleting what is in it.
    Terminating,
}

impl HoldStage {
    /// The list in the status.
    pub fn list(self) -> &'static str {
        match self {
            Self::Initializing => "initializers",
            Self::Terminating => "terminators",
        }
    }

    /// The verb on its WorkspaceType that lets somebody do this.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Initializing => "initialize",
            Self::Terminating => "terminate",
        }
    }

    /// An entry of the list in words.
    pub fn entry(self) -> &'static str {
        match self {
            Self::Initializing => "initializer",
            Self::Terminating => "terminator",
        }
    }
}

impl Hold {
    /// Its place in the list of a LogicalCluster; `None`: it is not there (any more).
    pub fn index_in(&self, logical_cluster: &Value) -> Option<usize> {
        let entries = logical_cluster.get("status")?.get(self.stage.list())?.as_array()?;
        entries.iter().position(|entry| entry.as_str() == Some(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_its_own_entry_of_its_own_list_is_found() {
        let hold = Hold { stage: HoldStage::Initializing, name: "c:team".into() };
        let with = |status: Value| hold.index_in(&json!({"status": status}));
        assert_eq!(with(json!({"initializers": ["system:apibindings", "c:team"]})), Some(1));
        assert_eq!(with(json!({"initializers": ["c:team:more", "d:team"], "terminators": ["c:team"]})), None);
        assert_eq!(with(json!({"initializers": null})), None);
        assert_eq!(hold.index_in(&json!({})), None);
    }
}
