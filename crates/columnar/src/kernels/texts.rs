//! Arrays of strings or bytes, of any Arrow type.

/// Runs `$body` with the array, whose values are `AsRef<[u8]>`, or the given arms for other types.
macro_rules! downcast_texts {
    ($array:expr, |$texts:ident| $body:expr, $($other:pat => $else:expr),+) => {
        match $array.data_type() {
            arrow::datatypes::DataType::Utf8 => {
                let $texts = arrow::array::AsArray::as_string::<i32>($array);
                $body
            }
            arrow::datatypes::DataType::LargeUtf8 => {
                let $texts = arrow::array::AsArray::as_string::<i64>($array);
                $body
            }
            arrow::datatypes::DataType::Utf8View => {
                let $texts = arrow::array::AsArray::as_string_view($array);
                $body
            }
            arrow::datatypes::DataType::Binary => {
                let $texts = arrow::array::AsArray::as_binary::<i32>($array);
                $body
            }
            arrow::datatypes::DataType::LargeBinary => {
                let $texts = arrow::array::AsArray::as_binary::<i64>($array);
                $body
            }
            arrow::datatypes::DataType::BinaryView => {
                let $texts = arrow::array::AsArray::as_binary_view($array);
                $body
            }
            $($other => $else,)+
        }
    };
}

pub(crate) use downcast_texts;
