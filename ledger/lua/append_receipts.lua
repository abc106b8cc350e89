-- Append signed receipts to the ledger's own stream, each once, however often it is sent.
-- EACH  receipt: id body
-- REPLY ok
-- WRITES receipts receipted
-- INCLUDE prelude keys
for id, body in each(receipt) do
  if redis.call('SISMEMBER', receipted_key(), id) == 0 then
    redis.call('XADD', receipts_key(), '*', 'receipt', body)
    redis.call('SADD', receipted_key(), id)
  end
end
return {'ok'}
