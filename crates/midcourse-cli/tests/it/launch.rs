//! Launches for tests: the folder that `midcourse run` writes for its hooks and its proxy.

use midcourse::DataDir;

/// Saves the settings of a launch with this configuration; returns its id.
pub(crate) fn save(data_dir: &DataDir, config: &str) -> String {
    let id = uuid::Uuid::now_v7().to_string();
    let folder = data_dir.launch_folder(&id);
    std::fs::create_dir_all(&folder).unwrap();
    let settings = serde_json::json!({"launch_id": id, "config": config});
    std::fs::write(folder.join("settings.json"), settings.to_string()).unwrap();
    id
}
