//! Compiles the interface of AgentFense's clients. What reads the `.proto` files is Rust, so a build needs no `protoc`.

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files([
        "sandbox/v1/common.proto",
        "sandbox/v1/codebase.proto",
        "sandbox/v1/sandbox.proto",
    ])?;
    // The messages as data, from which JSON is read and written, and which clients can ask for.
    std::fs::write(out.join("sandbox.v1.bin"), compiler.encode_file_descriptor_set())?;
    let mut config = tonic_prost_build::Config::new();
    // By its name, a message is found among those of the file.
    config.enable_type_names();
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .compile_fds_with_config(compiler.file_descriptor_set(), config)?;
    Ok(())
}
