//! Resources: values that a prompt makes available to its providers.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;

/// Gives providers access to files. The program that uses this crate implements the trait, because
/// the crate itself does no I/O.
pub trait Filesystem: Send + Sync {
    /// Whether the file exists.
    fn exists(&self, path: &str) -> bool;

    /// The text of the file; `None` if it cannot be read.
    fn read(&self, path: &str) -> Option<String>;
}

/// Values that a prompt gives to its providers, at most one of each type.
#[derive(Default)]
pub struct PromptResources(HashMap<TypeId, Box<dyn Any + Send + Sync>>);

impl PromptResources {
    pub(super) fn insert<T: Any + Send + Sync>(&mut self, resource: T) {
        self.0.insert(TypeId::of::<T>(), Box::new(resource));
    }

    /// The value of type `T`; `None` if the prompt has no such value.
    pub fn get_optional<T: Any>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>()).and_then(|resource| resource.downcast_ref())
    }

    /// The value of type `T`; an error if the prompt has no such value.
    pub fn get<T: Any>(&self) -> Result<&T, MissingResource> {
        self.get_optional().ok_or(MissingResource { type_name: type_name::<T>() })
    }
}

impl std::fmt::Debug for PromptResources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PromptResources({})", self.0.len())
    }
}

/// The error for a resource that the prompt does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the prompt has no resource of type {type_name}; add one with `with_resource`")]
pub struct MissingResource {
    /// Name of the Rust type that was requested.
    pub type_name: &'static str,
}
