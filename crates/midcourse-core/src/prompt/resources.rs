//! Resources: values that a prompt makes available to its providers.

use std::any::{Any, TypeId};
use std::collections::HashMap;

/// Files as the run sees them. The core does no I/O; the caller implements this.
pub trait Filesystem: Send + Sync {
    /// Whether the file exists.
    fn exists(&self, path: &str) -> bool;

    /// The text of the file; `None` if it cannot be read.
    fn read(&self, path: &str) -> Option<String>;
}

/// Values by type, one of each type.
#[derive(Default)]
pub struct Resources(HashMap<TypeId, Box<dyn Any + Send + Sync>>);

impl Resources {
    pub(super) fn insert<T: Any + Send + Sync>(&mut self, resource: T) {
        self.0.insert(TypeId::of::<T>(), Box::new(resource));
    }

    /// The value of a type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>()).and_then(|resource| resource.downcast_ref())
    }
}

impl std::fmt::Debug for Resources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Resources({})", self.0.len())
    }
}
