//! Codebases, and the files in them.

use std::sync::Arc;

use futures_util::StreamExt;
use md5::{Digest, Md5};
use tonic::{Request, Response, Status, Streaming};

use super::proto::codebase_service_server::CodebaseService;
use super::proto::{
    Codebase, CreateCodebaseRequest, DeleteCodebaseRequest, DownloadFileRequest, Empty, FileChunk, FileInfo,
    GetCodebaseRequest, ListCodebasesRequest, ListCodebasesResponse, ListFilesRequest, ListFilesResponse,
    UploadChunk, UploadResult, upload_chunk,
};
use super::streams::Sent;
use super::values::{caller, given, moment, page_size, required};
use crate::auth::Scope;
use crate::random;
use crate::service::{self, FileKind, Files, Spool, WriteOptions, on_a_thread};

/// The most bytes of a name.
const NAME_MAX: usize = 1024;
/// The most entries of a list of files.
const FILES_MAX: usize = 1_000_000;

/// The calls about codebases.
pub(super) struct Codebases;

fn show(codebase: service::Codebase) -> Codebase {
    Codebase {
        id: codebase.id,
        name: codebase.name,
        owner_id: codebase.owner,
        size: i64::try_from(codebase.bytes).unwrap_or(i64::MAX),
        file_count: i32::try_from(codebase.files).unwrap_or(i32::MAX),
        created_at: Some(moment(codebase.created)),
        updated_at: Some(moment(codebase.updated)),
    }
}

fn show_file(info: service::FileInfo) -> FileInfo {
    let path = info.path.trim_start_matches('/').to_owned();
    FileInfo {
        name: path.rsplit('/').next().unwrap_or_default().to_owned(),
        path,
        is_dir: info.kind == FileKind::Directory,
        size: i64::try_from(info.size).unwrap_or(i64::MAX),
        modified_at: Some(moment(info.modified)),
    }
}

#[tonic::async_trait]
impl CodebaseService for Codebases {
    type DownloadFileStream = Sent<FileChunk>;

    async fn create_codebase(
        &self,
        request: Request<CreateCodebaseRequest>,
    ) -> Result<Response<Codebase>, Status> {
        let caller = caller(&request, Scope::Run)?;
        let asked = request.into_inner();
        required("name", &asked.name)?;
        required("owner_id", &asked.owner_id)?;
        if asked.name.len().max(asked.owner_id.len()) > NAME_MAX {
            let text = format!("name and owner_id have at most {NAME_MAX} bytes");
            return Err(Status::invalid_argument(text));
        }
        let made = caller
            .tenant
            .codebases()
            .create(asked.name, asked.owner_id)
            .await?;
        Ok(Response::new(show(made)))
    }

    async fn get_codebase(&self, request: Request<GetCodebaseRequest>) -> Result<Response<Codebase>, Status> {
        let caller = caller(&request, Scope::Read)?;
        let id = required("codebase_id", &request.get_ref().codebase_id)?;
        Ok(Response::new(show(caller.tenant.codebases().get(id).await?)))
    }

    async fn list_codebases(
        &self,
        request: Request<ListCodebasesRequest>,
    ) -> Result<Response<ListCodebasesResponse>, Status> {
        let caller = caller(&request, Scope::Read)?;
        let asked = request.into_inner();
        let size = page_size(asked.page_size)?;
        let (owner, cursor) = (given(&asked.owner_id), given(&asked.page_token));
        let page = caller.tenant.codebases().list(owner, cursor, size).await?;
        Ok(Response::new(ListCodebasesResponse {
            codebases: page.codebases.into_iter().map(show).collect(),
            next_page_token: page.next.unwrap_or_default(),
        }))
    }

    async fn delete_codebase(
        &self,
        request: Request<DeleteCodebaseRequest>,
    ) -> Result<Response<Empty>, Status> {
        let caller = caller(&request, Scope::Run)?;
        let id = required("codebase_id", &request.get_ref().codebase_id)?;
        caller.tenant.codebases().delete(id).await?;
        Ok(Response::new(Empty {}))
    }

    async fn upload_files(
        &self,
        request: Request<Streaming<UploadChunk>>,
    ) -> Result<Response<UploadResult>, Status> {
        let caller = caller(&request, Scope::Run)?;
        let mut chunks = request.into_inner();
        let Some(upload_chunk::Content::Metadata(about)) = next_content(&mut chunks).await? else {
            return Err(Status::invalid_argument("metadata must be sent first"));
        };
        required("codebase_id", &about.codebase_id)?;
        required("file_path", &about.file_path)?;
        let tenant = Arc::clone(&caller.tenant);
        let id = about.codebase_id.clone();
        let opened = on_a_thread(move || Ok((tenant.codebases().vault(&id)?, Spool::begin(&tenant)?)));
        let (vault, mut spool) = opened.await?;
        let (mut size, mut sum) = (0_i64, Md5::new());
        while let Some(content) = next_content(&mut chunks).await? {
            let upload_chunk::Content::Data(data) = content else {
                return Err(Status::invalid_argument("metadata already received"));
            };
            size = size.saturating_add(i64::try_from(data.len()).unwrap_or(i64::MAX));
            sum.update(&data);
            spool = on_a_thread(move || spool.add(&data).map(|()| spool)).await?;
        }
        if about.total_size != 0 && about.total_size != size {
            let text = format!("{size} bytes came, and total_size is {}", about.total_size);
            return Err(Status::invalid_argument(text));
        }
        let path = about.file_path.clone();
        on_a_thread(move || Files::whole(&vault).write(&path, &spool, &WriteOptions::default())).await?;
        Ok(Response::new(UploadResult {
            codebase_id: about.codebase_id,
            file_path: about.file_path,
            size,
            checksum: random::hex(&sum.finalize()),
        }))
    }

    async fn download_file(
        &self,
        request: Request<DownloadFileRequest>,
    ) -> Result<Response<Sent<FileChunk>>, Status> {
        let caller = caller(&request, Scope::Read)?;
        let asked = request.into_inner();
        required("codebase_id", &asked.codebase_id)?;
        required("file_path", &asked.file_path)?;
        let tenant = caller.tenant;
        let opened = on_a_thread(move || {
            let vault = tenant.codebases().vault(&asked.codebase_id)?;
            Files::whole(&vault).open(&asked.file_path)
        });
        let file = opened.await?;
        let size = file.info.size;
        let sent = file.stream(0, size).map(|piece| match piece {
            Ok(bytes) => Ok(FileChunk { data: bytes.to_vec() }),
            Err(error) => Err(Status::internal(error.to_string())),
        });
        Ok(Response::new(Box::pin(sent)))
    }

    async fn list_files(
        &self,
        request: Request<ListFilesRequest>,
    ) -> Result<Response<ListFilesResponse>, Status> {
        let caller = caller(&request, Scope::Read)?;
        let asked = request.into_inner();
        required("codebase_id", &asked.codebase_id)?;
        let listed = on_a_thread(move || {
            let vault = caller.tenant.codebases().vault(&asked.codebase_id)?;
            let path = given(&asked.path).unwrap_or("/".to_owned());
            let depth = if asked.recursive { usize::MAX } else { 1 };
            Files::whole(&vault).list(&path, depth, None, FILES_MAX + 1)
        });
        let files = listed.await?;
        if files.len() > FILES_MAX {
            let text = format!("there are more than {FILES_MAX} entries; list directory by directory");
            return Err(Status::resource_exhausted(text));
        }
        Ok(Response::new(ListFilesResponse {
            files: files.into_iter().map(show_file).collect(),
        }))
    }
}

async fn next_content(chunks: &mut Streaming<UploadChunk>) -> Result<Option<upload_chunk::Content>, Status> {
    match chunks.message().await? {
        Some(chunk) => match chunk.content {
            Some(content) => Ok(Some(content)),
            None => Err(Status::invalid_argument("a chunk has metadata or data")),
        },
        None => Ok(None),
    }
}
