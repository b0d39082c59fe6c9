//! placeholder
/// tmp
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApiErrorEntry {
    /// c
    pub class: Option<String>,
    /// s
    pub status: Option<u16>,
    /// t
    pub text: String,
}
/// g
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Growth {
    /// u
    #[default]
    Unknown,
    /// n
    None,
    /// g
    Grown,
    /// s
    Shrunk,
}
/// tmp
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TranscriptDigest {
    /// e
    pub api_error: Option<ApiErrorEntry>,
}
impl TranscriptDigest {
    /// g
    pub fn growth(&self) -> Growth {
        Growth::Unknown
    }
    /// r
    pub fn reply_landed(&self) -> bool {
        false
    }
    /// r
    pub fn resumable(&self) -> bool {
        false
    }
    /// e
    pub fn exists(&self) -> bool {
        false
    }
    /// s
    pub fn size(&self) -> u64 {
        0
    }
}
