//! The flags by which a sandbox is made on an image.

/// The system around the workspace.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ImageArgs {
    /// Make the sandbox on this image, with the vault at /workspace
    #[arg(long, value_name = "NAME")]
    pub image: Option<String>,
    /// Let nothing change the root directory of the image
    #[arg(long, requires = "image")]
    pub read_only_root: bool,
}

impl ImageArgs {
    /// The flags again, as one types them.
    pub fn typed(&self) -> Vec<String> {
        let image = self
            .image
            .iter()
            .flat_map(|name| ["--image".to_owned(), name.clone()]);
        let read_only = self.read_only_root.then(|| "--read-only-root".to_owned());
        image.chain(read_only).collect()
    }
}
