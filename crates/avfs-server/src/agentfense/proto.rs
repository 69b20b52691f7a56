//! The messages and services of `proto/`, as Rust, as data, and as JSON.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::unwrap_used,
    reason = "a part of it is generated"
)]

use std::sync::{Arc, LazyLock};

use axum::Router;
use prost::{Message, Name};
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, Kind, MessageDescriptor, SerializeOptions,
};

use crate::server::Server;

tonic::include_proto!("sandbox.v1");

/// The messages and services as data.
const DESCRIPTION: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sandbox.v1.bin"));

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTION).expect("the build has written it"));

pub(super) fn descriptor<T: Name>() -> MessageDescriptor {
    POOL.get_message_by_name(&T::full_name())
        .expect("a message of the build is in its description")
}

/// Reads a message from JSON. What it does not know is passed over, as the gateway does.
pub(super) fn from_json<T: Name + Message + Default>(value: serde_json::Value) -> Result<T, String> {
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let read = DynamicMessage::deserialize_with_options(descriptor::<T>(), value, &options);
    let read = read.map_err(|error| error.to_string())?;
    read.transcode_to().map_err(|error| error.to_string())
}

/// Writes a message as JSON, with everything that it leaves out.
pub(super) fn to_json<T: Name + Message>(message: &T) -> Vec<u8> {
    let mut dynamic = DynamicMessage::new(descriptor::<T>());
    dynamic
        .transcode_from(message)
        .expect("the description is that of the message");
    let options = SerializeOptions::new().skip_default_fields(false);
    let mut value = dynamic
        .serialize_with_options(serde_json::value::Serializer, &options)
        .expect("every message is a value of JSON");
    name_absent(&descriptor::<T>(), &mut value);
    value.to_string().into_bytes()
}

/// The gateway also names the messages inside a message that are not there.
fn name_absent(of: &MessageDescriptor, value: &mut serde_json::Value) {
    let Some(fields) = value.as_object_mut() else {
        return;
    };
    for field in of.fields() {
        let Kind::Message(inner) = field.kind() else {
            continue;
        };
        match fields.get_mut(field.json_name()) {
            Some(serde_json::Value::Array(all)) => all.iter_mut().for_each(|one| name_absent(&inner, one)),
            Some(one) if !field.is_map() => name_absent(&inner, one),
            Some(_) => {}
            None => drop(fields.insert(field.json_name().to_owned(), serde_json::Value::Null)),
        }
    }
}

/// Clients can ask which services and messages there are.
pub(super) fn add_reflection(routes: Router<Arc<Server>>) -> Router<Arc<Server>> {
    let builder =
        || tonic_reflection::server::Builder::configure().register_encoded_file_descriptor_set(DESCRIPTION);
    let (newest, older) = (builder().build_v1(), builder().build_v1alpha());
    // The build has written the description.
    let (Ok(newest), Ok(older)) = (newest, older) else {
        return routes;
    };
    routes
        .route_service("/grpc.reflection.v1.ServerReflection/{call}", newest)
        .route_service("/grpc.reflection.v1alpha.ServerReflection/{call}", older)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_that_of_the_gateway() {
        let result = ExecResult {
            stdout: "a\n".into(),
            duration: Some(prost_types::Duration {
                seconds: 1,
                nanos: 500_000_000,
            }),
            ..ExecResult::default()
        };
        let written: serde_json::Value = serde_json::from_slice(&to_json(&result)).unwrap();
        assert_eq!(
            written,
            serde_json::json!({ "stdout": "a\n", "stderr": "", "exitCode": 0, "duration": "1.500s" })
        );
    }

    #[test]
    fn absent_fields_are_written_as_null() {
        let page = ListSandboxesResponse {
            sandboxes: vec![Sandbox {
                labels: [("a".to_owned(), "b".to_owned())].into(),
                created_at: Some(prost_types::Timestamp { seconds: 1, nanos: 0 }),
                ..Sandbox::default()
            }],
            ..ListSandboxesResponse::default()
        };
        let written: serde_json::Value = serde_json::from_slice(&to_json(&page)).unwrap();
        let sandbox = written["sandboxes"][0].as_object().unwrap();
        assert_eq!(
            (&sandbox["startedAt"], &sandbox["resources"]),
            (&serde_json::Value::Null, &serde_json::Value::Null)
        );
        assert_eq!(sandbox["createdAt"], "1970-01-01T00:00:01Z");
        assert_eq!(sandbox["labels"], serde_json::json!({ "a": "b" }));
        assert_eq!(sandbox["status"], "SANDBOX_STATUS_UNSPECIFIED");
    }

    #[test]
    fn both_spellings_of_names_are_read() {
        for json in [
            serde_json::json!({ "sandbox_id": "sb_1", "timeout": "2s", "unknown": 1 }),
            serde_json::json!({ "sandboxId": "sb_1", "timeout": "2s" }),
        ] {
            let read: ExecRequest = from_json(json).unwrap();
            assert_eq!(read.sandbox_id, "sb_1");
            assert_eq!(read.timeout.unwrap().seconds, 2);
        }
        let wrong = serde_json::json!({ "timeout": "soon" });
        assert!(from_json::<ExecRequest>(wrong).is_err());
    }
}
