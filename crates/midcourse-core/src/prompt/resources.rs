//! What a prompt lends to its providers.

use std::any::{Any, TypeId};
use std::collections::HashMap;

/// Files as the run sees them. The core has no disk; whoever has one lends it.
pub trait Filesystem: Send + Sync {
    /// Whether there is such a file.
    fn exists(&self, path: &str) -> bool;

    /// The text of a file, if it can be read.
    fn read(&self, path: &str) -> Option<String>;
}

/// Things by type.
#[derive(Default)]
pub struct Resources(HashMap<TypeId, Box<dyn Any + Send + Sync>>);

impl Resources {
    /// Lends a thing; one of a type.
    pub(super) fn insert<T: Any + Send + Sync>(&mut self, resource: T) {
        self.0.insert(TypeId::of::<T>(), Box::new(resource));
    }

    /// The thing of a type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>()).and_then(|resource| resource.downcast_ref())
    }
}

impl std::fmt::Debug for Resources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Resources({})", self.0.len())
    }
}
